/*
 * `shoal board provision`: the provisioning page of a new board, in one .hex file with the firmware.
 * Everything is looked at before a code is asked for, so that a wrong option leaves no code behind. The file
 * is readable for its owner only: the code lies in it.
 */
#include "firmware/core/flashmap.h"
#include "firmware/core/provision.h"
#include "server/base/file.h"
#include "server/base/utf8.h"
#include "server/ca/enrol_code.h"
#include "server/cli/client.h"
#include "server/cli/commands.h"
#include "server/provision/image.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { IMAGE_MAX = 16 << 20, TTL_S = 86400 };

struct options {
    const char *output, *image, *server, *code, *name, *address, *gateway, *dns, *url;
    int64_t ttl_s;
    bool accept, json;
};

static int refuse(struct error *error, const char *option, const char *value, const char *what)
{
    return error_set(error, STATUS_INVALID_ARGUMENT, "--%s %s: %s", option, value, what);
}

/* HOST:PORT[,HOST:PORT] */
static int read_servers(const char *text, struct provision *page, struct error *error)
{
    const char *from = text;
    for (page->n_servers = 0;; from++) {
        size_t n = strcspn(from, ",");
        const char *colon = memchr(from, ':', n);
        char port[8] = "";
        if (page->n_servers == PROVISION_SERVERS_MAX)
            return refuse(error, "server", text, "at most two servers");
        if (!colon || colon == from || colon - from > PROVISION_HOST_MAX)
            return refuse(error, "server", text,
                          "takes HOST:PORT, or two of them with a comma; HOST is a name or IPv4");
        size_t digits = n - (size_t)(colon + 1 - from);
        if (digits == 0 || digits > 5 || strspn(colon + 1, "0123456789") != digits)
            return refuse(error, "server", text, "a port is 1 to 65535");
        memcpy(port, colon + 1, digits);
        long number = strtol(port, NULL, 10);
        if (number < 1 || number > 65535)
            return refuse(error, "server", text, "a port is 1 to 65535");
        struct provision_server *server = &page->servers[page->n_servers++];
        memset(server, 0, sizeof *server);
        memcpy(server->host, from, (size_t)(colon - from));
        server->port = (uint16_t)number;
        from += n;
        if (*from == 0)
            return STATUS_OK;
    }
}

/* ADDRESS/BITS */
static int read_static(const struct options *o, struct provision *page, struct error *error)
{
    char address[16] = "", *end = NULL;
    if (!o->address)
        return !o->gateway && !o->dns ? STATUS_OK
                                      : error_set(error, STATUS_INVALID_ARGUMENT,
                                                  "--gateway and --dns go with --static: DHCP tells both");
    size_t n = strcspn(o->address, "/");
    long bits = o->address[n] == '/' && o->address[n + 1] >= '0' && o->address[n + 1] <= '9'
                    ? strtol(o->address + n + 1, &end, 10)
                    : 0;
    if (n >= sizeof address || !end || *end != 0 || bits < 1 || bits > 30)
        return refuse(error, "static", o->address, "takes ADDRESS/BITS, as 192.0.2.7/24");
    memcpy(address, o->address, n);
    if (!provision_address(address, page->address))
        return refuse(error, "static", o->address, "takes ADDRESS/BITS, as 192.0.2.7/24");
    for (long bit = 0; bit < bits; bit++)
        page->mask[bit / 8] |= (uint8_t)(0x80 >> bit % 8);
    page->is_static = true;
    if (o->gateway && !provision_address(o->gateway, page->gateway))
        return refuse(error, "gateway", o->gateway, "is not an IPv4 address");
    if (o->dns && !provision_address(o->dns, page->dns))
        return refuse(error, "dns", o->dns, "is not an IPv4 address");
    return STATUS_OK;
}

static int put_code(const char *text, struct provision *page, struct error *error)
{
    struct enrol_code code;
    if (enrol_code_parse(text, &code) != 0)
        return error_set(error, STATUS_CODE_WRONG,
                         "that is not an enrolment code: it has 42 letters and digits");
    enrol_code_format(&code, page->code);
    memcpy(page->trust, code.trust, sizeof page->trust);
    return STATUS_OK;
}

/* All but what the server will say. */
static int read_page(const struct options *o, struct provision *page, struct error *error)
{
    const char *what;
    uint8_t bytes[PROVISION_BYTES];
    if (o->name && (strlen(o->name) > PROVISION_NAME_MAX || !utf8_valid(o->name, strlen(o->name))))
        return refuse(error, "name", o->name, "is at most 63 bytes of UTF-8");
    if (o->name)
        strcpy(page->name, o->name);
    int status = read_servers(o->server ? o->server : "192.0.2.1:1", page, error);
    if (status == STATUS_OK)
        status = read_static(o, page, error);
    if (status == STATUS_OK && o->code)
        status = put_code(o->code, page, error);
    if (status != STATUS_OK)
        return status;
    status = provision_encode(page, bytes, &what);
    return status == STATUS_OK
               ? STATUS_OK
               : error_set(error, (enum status)status, "the settings do not go together: %s", what);
}

/* A new code from the server; *answer is the caller's. */
static int ask_code(const struct options *o, struct client *client, struct provision *page, json_t **answer,
                    struct error *error)
{
    json_t *body =
        json_pack("{s:b, s:I, s:i}", "accept", o->accept, "ttl_s", (json_int_t)o->ttl_s, "uses", 1);
    int code = client_json(client, "POST", "/api/v1/enrolments", body, 0, answer);
    if (code != CLI_DONE)
        return code;
    const char *text = json_string_value(json_object_get(*answer, "code"));
    const char *server = json_string_value(json_object_get(*answer, "server"));
    int status = put_code(text ? text : "", page, error);
    if (status == STATUS_OK && !o->server && (!server || strstr(server, "THIS_MACHINE")))
        status = error_set(error, STATUS_INVALID_ARGUMENT,
                           "the server listens on all its addresses: say with --server which one boards use");
    if (status == STATUS_OK && !o->server)
        status = read_servers(server, page, error);
    return status == STATUS_OK ? CLI_DONE : cli_fail(o->json, error);
}

static bool is_loopback(const char *host)
{
    return strncmp(host, "127.", 4) == 0 || strcmp(host, "localhost") == 0;
}

/* The file: the image, if there is one, and the page. */
static int write_file(const struct options *o, struct ihex *image, const struct provision *page,
                      struct error *error)
{
    uint8_t bytes[PROVISION_BYTES];
    const char *what;
    char *text = NULL;
    size_t n;
    int status = provision_encode(page, bytes, &what);
    if (status != STATUS_OK)
        return error_set(error, (enum status)status, "the settings do not go together: %s", what);
    status = ihex_add(image, FLASHMAP_BASE + FLASHMAP_PROVISION, bytes, sizeof bytes, error);
    if (status == STATUS_OK)
        status = ihex_format(image, &text, &n, error);
    if (status == STATUS_OK)
        status = file_write(o->output, text, n, 0600, error);
    free(text);
    return status;
}

static json_t *describe(const struct options *o, uint64_t image_bytes, const struct provision *page,
                        const json_t *answer)
{
    json_t *servers = json_array();
    char text[PROVISION_HOST_MAX + 8];
    for (uint32_t i = 0; i < page->n_servers; i++) {
        (void)snprintf(text, sizeof text, "%s:%u", page->servers[i].host, page->servers[i].port);
        (void)json_array_append_new(servers, json_string(text));
    }
    return json_pack("{s:s, s:I, s:I, s:s, s:o, s:b, s:s*, s:s*}", "file", o->output, "image_bytes",
                     (json_int_t)image_bytes, "page_address", (json_int_t)FLASHMAP_BASE + FLASHMAP_PROVISION,
                     "name", page->name, "servers", servers, "dhcp", !page->is_static, "enrolment",
                     json_string_value(json_object_get(answer, "id")), "expires_at",
                     json_string_value(json_object_get(answer, "expires_at")));
}

static int say(const struct options *o, uint64_t image_bytes, const struct provision *page, json_t *answer)
{
    const char *expires = json_string_value(json_object_get(answer, "expires_at"));
    for (uint32_t i = 0; i < page->n_servers; i++)
        if (is_loopback(page->servers[i].host))
            (void)fprintf(stderr, "shoal: %s is this machine only: a board on the network cannot reach it\n",
                          page->servers[i].host);
    if (o->json)
        return cli_print_json(describe(o, image_bytes, page, answer));
    (void)fprintf(stderr, "%s: %s%s, server %s:%u%s%s, %s%s%s\n", o->output,
                  image_bytes ? "firmware and provisioning page" : "provisioning page, no firmware",
                  page->name[0] ? "" : ", no name", page->servers[0].host, page->servers[0].port,
                  page->n_servers > 1 ? " and " : "", page->n_servers > 1 ? page->servers[1].host : "",
                  page->is_static ? "static address" : "DHCP", expires ? "; the code is good until " : "",
                  expires ? expires : "");
    return CLI_DONE;
}

static int provision(const struct options *o)
{
    struct provision page = {0};
    struct ihex image = {0};
    struct client client;
    struct error error;
    uint8_t *bytes = NULL;
    size_t n = 0;
    json_t *answer = NULL;
    error_clear(&error);
    int code = CLI_DONE, status = read_page(o, &page, &error);
    if (status == STATUS_OK && o->image)
        status = file_read(o->image, IMAGE_MAX, &bytes, &n, &error);
    if (status == STATUS_OK && o->image) {
        struct error inner;
        error_clear(&inner);
        status = image_read(&image, bytes, n, &inner);
        if (status != STATUS_OK)
            error_set(&error, (enum status)status, "%s: %s", o->image, inner.message);
    }
    uint64_t image_bytes = ihex_bytes(&image);
    if (status == STATUS_OK && !o->code) {
        status = client_open(&client, o->url, o->json, &error);
        if (status == STATUS_OK)
            code = ask_code(o, &client, &page, &answer, &error);
    }
    if (status == STATUS_OK && code == CLI_DONE)
        status = write_file(o, &image, &page, &error);
    if (status != STATUS_OK)
        code = cli_fail(o->json, &error);
    if (code == CLI_DONE)
        code = say(o, image_bytes, &page, answer);
    json_decref(answer);
    ihex_free(&image);
    free(bytes);
    return code;
}

int cli_board_provision(const struct cli_command *self, int argc, char **argv)
{
    struct options o = {.ttl_s = TTL_S};
    const struct cli_option options[] = {
        {.name = "output", .kind = CLI_TEXT, .target = &o.output},
        {.name = "image", .kind = CLI_TEXT, .target = &o.image},
        {.name = "server", .kind = CLI_TEXT, .target = &o.server},
        {.name = "code", .kind = CLI_TEXT, .target = &o.code},
        {.name = "accept", .kind = CLI_FLAG, .target = &o.accept},
        {.name = "ttl-s", .kind = CLI_NUMBER, .target = &o.ttl_s, .min = 1, .max = 7 * 86400},
        {.name = "name", .kind = CLI_TEXT, .target = &o.name},
        {.name = "static", .kind = CLI_TEXT, .target = &o.address},
        {.name = "gateway", .kind = CLI_TEXT, .target = &o.gateway},
        {.name = "dns", .kind = CLI_TEXT, .target = &o.dns},
        {.name = "url", .kind = CLI_TEXT, .target = &o.url},
        {.name = "json", .kind = CLI_FLAG, .target = &o.json},
    };
    const char *words[1];
    int code, n;
    if (!cli_options(self, argc, argv, options, sizeof options / sizeof *options, words, 1, 1, &n, &code))
        return code;
    if (!o.output)
        return cli_wrong_usage(self, "provision needs --output FILE.hex");
    if (o.code && !o.server)
        return cli_wrong_usage(self, "with --code also --server HOST:PORT is needed");
    if (o.code && (o.accept || o.ttl_s != TTL_S))
        return cli_wrong_usage(self, "--accept and --ttl-s are of a new code, --code gives one");
    return provision(&o);
}
