/* The version of server, command line and host board; one number for all of them. */
#ifndef SHOAL_SERVER_BASE_VERSION_H
#define SHOAL_SERVER_BASE_VERSION_H

#define SHOAL_VERSION "0.1.0"

#endif
