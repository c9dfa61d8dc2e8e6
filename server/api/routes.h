/* The route table: every method and path of the server, with who may, where it runs and what it takes. */
#ifndef SHOAL_SERVER_API_ROUTES_H
#define SHOAL_SERVER_API_ROUTES_H

#include "server/deploy/deploy.h"
#include "server/http/http.h"

const struct http_route *api_routes(size_t *count);

/* Adds "in_use" and "safe_to_unplug" to a board as the fleet gives it. */
void api_complete_board(struct deploy *deploy, json_t *board);

#endif
