/* stb_image with what we allow: PNG and JPEG from memory. Nothing outside server/import includes this. */
#ifndef SHOAL_SERVER_IMPORT_STB_H
#define SHOAL_SERVER_IMPORT_STB_H

#define STBI_ONLY_PNG
#define STBI_ONLY_JPEG
#define STBI_NO_STDIO
#define STBI_NO_LINEAR
#define STBI_NO_HDR
#define STBI_MAX_DIMENSIONS 4096
#include <stb/stb_image.h>

#endif
