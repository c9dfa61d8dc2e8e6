/*
 * The flash of an emulated board as a file: makes it, blank, if it is not there, and writes the provisioning
 * page into it. What else the file holds (identity, fragments) stays. scripts/qemu-board runs a board with
 * it.
 *
 *     emulated_flash FILE NAME HOST:PORT CODE|- [HOST:PORT]
 */
#include "firmware/core/flashmap.h"
#include "firmware/core/provision.h"
#include "server/ca/enrol_code.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILE_BYTES = 16 << 20 /* QEMU's RAM there; the board knows of 7,936 KiB */, CHUNK = 65536 };

static int fail(const char *what, const char *why)
{
    fprintf(stderr, "emulated_flash: %s: %s\n", what, why);
    return 1;
}

static int add_server(struct provision *page, const char *text)
{
    struct provision_server *server = &page->servers[page->n_servers];
    const char *colon = strrchr(text, ':');
    if (colon == NULL || colon - text > PROVISION_HOST_MAX)
        return fail(text, "not HOST:PORT");
    memcpy(server->host, text, (size_t)(colon - text));
    server->port = (uint16_t)strtoul(colon + 1, NULL, 10);
    page->n_servers++;
    return 0;
}

static int make_page(int argc, char **argv, uint8_t bytes[PROVISION_BYTES])
{
    static struct provision page;
    struct enrol_code code;
    const char *what = "";
    if (strlen(argv[2]) > PROVISION_NAME_MAX)
        return fail(argv[2], "too long");
    strcpy(page.name, argv[2]);
    if (strcmp(argv[4], "-") != 0) {
        if (enrol_code_parse(argv[4], &code) != 0)
            return fail(argv[4], "not an enrolment code");
        enrol_code_format(&code, page.code);
        memcpy(page.trust, code.trust, sizeof page.trust);
    }
    if (add_server(&page, argv[3]) != 0 || (argc > 5 && add_server(&page, argv[5]) != 0))
        return 1;
    return provision_encode(&page, bytes, &what) == 0 ? 0 : fail("page", what);
}

static int make_blank(int fd)
{
    uint8_t ones[CHUNK];
    memset(ones, 0xFF, sizeof ones);
    for (int i = 0; i < FILE_BYTES / CHUNK; i++)
        if (write(fd, ones, sizeof ones) != (ssize_t)sizeof ones)
            return -1;
    return 0;
}

int main(int argc, char **argv)
{
    uint8_t page[PROVISION_BYTES];
    struct stat about;
    if (argc < 5 || argc > 6) {
        fprintf(stderr, "usage: emulated_flash FILE NAME HOST:PORT CODE|- [HOST:PORT]\n");
        return 2;
    }
    if (make_page(argc, argv, page) != 0)
        return 1;
    int fd = open(argv[1], O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || fstat(fd, &about) != 0) {
        perror(argv[1]);
        return 1;
    }
    if ((about.st_size != FILE_BYTES && (ftruncate(fd, 0) != 0 || make_blank(fd) != 0)) ||
        pwrite(fd, page, sizeof page, FLASHMAP_PROVISION) != (ssize_t)sizeof page || close(fd) != 0) {
        perror(argv[1]);
        return 1;
    }
    return 0;
}
