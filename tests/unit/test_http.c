/*
 * The HTTP layer over real sockets on loopback: framing, Host and Origin, strict decoding, limits, content
 * types, the worker pool, pending exchanges, event streams, slow clients.
 */
#include "server/http/http.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <setjmp.h>
#include <cmocka.h>

static struct http_server *server;
static struct http_events *events;
static pthread_t finisher;

static int get_name(struct http_exchange *x)
{
    const char *q = http_query(x, "q");
    return http_json(x, 200, json_pack("{s:s, s:s?}", "name", http_request(x)->param[0], "q", q));
}

static int echo_body(struct http_exchange *x)
{
    const struct http_request *r = http_request(x);
    return http_json(x, 200, json_pack("{s:I, s:O?}", "bytes", (json_int_t)r->body_bytes, "json", r->json));
}

static int spooled(struct http_exchange *x)
{
    const struct http_request *r = http_request(x);
    return http_json(x, 201,
                     json_pack("{s:I, s:s}", "bytes", (json_int_t)r->body_fd_bytes, "sha", r->body_sha));
}

static void *finish_later(void *context)
{
    struct http_exchange *x = context;
    usleep(20000);
    http_json(x, 200, json_pack("{s:b}", "later", 1));
    http_finish(x);
    return NULL;
}

static int later(struct http_exchange *x)
{
    if (finisher)
        pthread_join(finisher, NULL);
    pthread_create(&finisher, NULL, finish_later, x);
    return HTTP_PENDING;
}

static int slow(struct http_exchange *x)
{
    usleep(300000);
    return http_json(x, 200, json_object());
}

static int stream(struct http_exchange *x)
{
    return http_events_stream(x, events);
}

static int wants_number(struct http_exchange *x)
{
    int64_t n;
    if (http_query_int(x, "n", 1, 10, 5, &n) < 0)
        return 0;
    return http_json(x, 200, json_pack("{s:I}", "n", (json_int_t)n));
}

static const struct http_route routes[] = {
    {"GET", "/things/{name}", HTTP_ROLE_VIEWER, HTTP_INLINE, HTTP_BODY_NONE, 0, get_name, "", NULL, NULL},
    {"GET", "/number", HTTP_ROLE_VIEWER, HTTP_INLINE, HTTP_BODY_NONE, 0, wants_number, "", NULL, NULL},
    {"POST", "/json", HTTP_ROLE_OPERATOR, HTTP_INLINE, HTTP_BODY_JSON, 1000, echo_body, "", NULL, NULL},
    {"POST", "/image", HTTP_ROLE_OPERATOR, HTTP_INLINE, HTTP_BODY_IMAGE, 0, echo_body, "", NULL, NULL},
    {"PUT", "/file", HTTP_ROLE_OPERATOR, HTTP_WORKER, HTTP_BODY_SPOOL, 100000, spooled, "", NULL, NULL},
    {"GET", "/later", HTTP_ROLE_VIEWER, HTTP_INLINE, HTTP_BODY_NONE, 0, later, "", NULL, NULL},
    {"GET", "/later-worker", HTTP_ROLE_VIEWER, HTTP_WORKER, HTTP_BODY_NONE, 0, later, "", NULL, NULL},
    {"GET", "/slow", HTTP_ROLE_VIEWER, HTTP_WORKER, HTTP_BODY_NONE, 0, slow, "", NULL, NULL},
    {"GET", "/events", HTTP_ROLE_VIEWER, HTTP_INLINE, HTTP_BODY_NONE, 0, stream, "", NULL, NULL},
};

static int set_up(void **state)
{
    (void)state;
    struct error error;
    error_clear(&error);
    events = http_events_new(4);
    struct http_config config = {.listen = "127.0.0.1:0",
                                 .routes = routes,
                                 .n_routes = sizeof routes / sizeof *routes,
                                 .spool_dir = "/tmp",
                                 .workers = 1,
                                 .worker_queue = 2,
                                 .connections = 64};
    if (http_start(&server, &config, &error) < 0)
        fprintf(stderr, "%s\n", error.message);
    return server && events ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    if (finisher)
        pthread_join(finisher, NULL);
    http_events_close(events);
    http_stop(server);
    http_events_free(events);
    return 0;
}

static int dial(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(http_port(server))};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    struct timeval limit = {.tv_sec = 10};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

/* Sends a raw request, reads to the end of the connection (or a time-out); returns the text. */
static const char *answer_to(const char *request, size_t n)
{
    static char text[65536];
    int fd = dial();
    assert_int_equal(send(fd, request, n, MSG_NOSIGNAL), (ssize_t)n);
    size_t used = 0;
    ssize_t got;
    while (used < sizeof text - 1 && (got = recv(fd, text + used, sizeof text - 1 - used, 0)) > 0)
        used += (size_t)got;
    text[used] = 0;
    close(fd);
    return text;
}

static const char *ask(const char *line, const char *headers, const char *body)
{
    static char request[200000];
    int n = snprintf(request, sizeof request, "%s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n%s",
                     line, headers);
    if (body)
        n += snprintf(request + n, sizeof request - (size_t)n, "Content-Length: %zu\r\n", strlen(body));
    n += snprintf(request + n, sizeof request - (size_t)n, "\r\n%s", body ? body : "");
    return answer_to(request, (size_t)n);
}

static void assert_answer(const char *answer, const char *status, const char *part)
{
    if (strncmp(answer + 9, status, 3) != 0 || !strstr(answer, part))
        fail_msg("wanted %s with '%s', got:\n%s", status, part, answer);
}

static void route_decodes_names_strictly(void **state)
{
    (void)state;
    assert_answer(ask("GET /things/a%20b?q=x%2Fy", "", NULL), "200", "\"name\":\"a b\"");
    assert_answer(ask("GET /things/%c3%a9", "", NULL), "200", "\xc3\xa9");
    static const char *const bad[] = {"GET /things/a%00b", "GET /things/%2e%2e%2fetc", "GET /things/a%5cb",
                                      "GET /things/%ff",   "GET /things/%1",           "GET /things/%zz"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_answer(ask(bad[i], "", NULL), "400", "invalid_argument");
    assert_answer(ask("GET /things/", "", NULL), "404", "not_found");
    assert_answer(ask("GET /things/a/b", "", NULL), "404", "not_found");
    assert_answer(ask("GET /../../etc/passwd", "", NULL), "404", "not_found");
}

static void wrong_method_names_the_right_one(void **state)
{
    (void)state;
    const char *answer = ask("DELETE /json", "", NULL);
    assert_answer(answer, "405", "Allow: POST");
}

static void query_numbers_are_checked(void **state)
{
    (void)state;
    assert_answer(ask("GET /number", "", NULL), "200", "{\"n\":5}");
    assert_answer(ask("GET /number?n=7", "", NULL), "200", "{\"n\":7}");
    assert_answer(ask("GET /number?n=11", "", NULL), "400", "from 1 to 10");
    assert_answer(ask("GET /number?n=1x", "", NULL), "400", "?n is a whole number");
}

static void host_and_origin_are_checked(void **state)
{
    (void)state;
    const char *evil = "GET /things/a HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n";
    assert_answer(answer_to(evil, strlen(evil)), "403", "Host header");
    assert_answer(
        ask("POST /json", "Origin: http://evil.example\r\nContent-Type: application/json\r\n", "{}"), "403",
        "other origins");
    assert_answer(ask("POST /json", "Origin: http://localhost\r\nContent-Type: application/json\r\n", "{}"),
                  "200", "json");
    assert_answer(ask("GET /things/a", "Origin: http://evil.example\r\n", NULL), "200", "a");
}

static void length_stated_twice_is_refused(void **state)
{
    (void)state;
    const char *two =
        "POST /json HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 2\r\n"
        "Content-Length: 3\r\n\r\n{}";
    assert_answer(answer_to(two, strlen(two)), "400", "stated more than once");
    const char *both =
        "POST /json HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 2\r\n"
        "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n";
    assert_answer(answer_to(both, strlen(both)), "400", "stated more than once");
}

static void json_errors_name_the_place(void **state)
{
    (void)state;
    const char *json = "Content-Type: application/json\r\n";
    assert_answer(ask("POST /json", json, "{\"a\":1}"), "200", "{\"a\":1}");
    assert_answer(ask("POST /json", json, "{\"a\":1,}"), "400", "line 1");
    assert_answer(ask("POST /json", json, "{\"a\":1,\"a\":2}"), "400", "bad_json");
    assert_answer(ask("POST /json", json, "{} x"), "400", "bad_json");
}

static void body_limits_hold_with_and_without_a_stated_length(void **state)
{
    (void)state;
    char *big = malloc(2001);
    memset(big, ' ', 2000);
    big[2000] = 0;
    const char *answer = ask("POST /json", "Content-Type: application/json\r\n", big);
    assert_answer(answer, "413", "limit of 1000 bytes");
    assert_non_null(strstr(answer, "\"actual\":2000"));
    char chunked[3000];
    int n = snprintf(
        chunked, sizeof chunked,
        "POST /json HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n"
        "Transfer-Encoding: chunked\r\n\r\n7d0\r\n%s\r\n0\r\n\r\n",
        big);
    assert_answer(answer_to(chunked, (size_t)n), "413", "too_large");
    free(big);
}

/* Many clients read nothing before they have sent all: the 413 must not meet a closed connection. */
static void a_body_that_is_too_large_is_read_before_it_is_refused(void **state)
{
    (void)state;
    enum { SIZE = 6 << 20 };
    char *request = malloc(SIZE + 1000);
    int n = snprintf(request, 1000,
                     "POST /json HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: "
                     "application/json\r\nContent-Length: %d\r\n\r\n",
                     SIZE);
    memset(request + n, ' ', SIZE);
    assert_answer(answer_to(request, (size_t)n + SIZE), "413", "limit of 1000 bytes");
    free(request);
}

static void wrong_type_prints_the_right_curl_line(void **state)
{
    (void)state;
    const char *text = "Content-Type: text/plain\r\n";
    assert_answer(ask("POST /json", text, "{}"), "415", "curl -X POST -H 'Content-Type: application/json'");
    assert_answer(ask("PUT /file", text, "x"), "415", "curl -X PUT -T FILE http://localhost/file");
    assert_answer(ask("POST /image", text, "x"), "415", "image/png");
    assert_answer(ask("POST /image", "Content-Type: image/png\r\n", "x"), "200", "\"bytes\":1");
}

static void spooled_upload_is_hashed(void **state)
{
    (void)state;
    assert_answer(ask("PUT /file", "", "abc"), "201",
                  "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert_answer(ask("PUT /file", "", ""), "201", "\"bytes\":0");
}

static void pending_exchanges_are_finished_from_another_thread(void **state)
{
    (void)state;
    assert_answer(ask("GET /later", "", NULL), "200", "later");
    assert_answer(ask("GET /later-worker", "", NULL), "200", "later");
}

static void full_queue_says_busy_at_once(void **state)
{
    (void)state;
    const char *request = "GET /slow HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    int fds[6], busy = 0, done = 0;
    for (int i = 0; i < 6; i++) {
        fds[i] = dial();
        assert_true(send(fds[i], request, strlen(request), 0) > 0);
    }
    for (int i = 0; i < 6; i++) {
        char text[4096];
        ssize_t n = recv(fds[i], text, sizeof text - 1, MSG_WAITALL);
        assert_true(n > 0);
        text[n] = 0;
        busy += strstr(text, " 503 ") && strstr(text, "Retry-After: 1");
        done += strstr(text, " 200 ") != NULL;
        close(fds[i]);
    }
    assert_true(busy >= 3 && done >= 2 && busy + done == 6);
}

static void read_until(int fd, char *text, size_t size, const char *part)
{
    size_t used = strlen(text);
    while (!strstr(text, part)) {
        ssize_t n = recv(fd, text + used, size - 1 - used, 0);
        if (n <= 0)
            fail_msg("the stream ended before '%s': %s", part, text);
        used += (size_t)n;
        text[used] = 0;
    }
}

static void event_streams_resume_from_the_ring(void **state)
{
    (void)state;
    const char *request = "GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n";
    char text[8192] = "";
    int fd = dial();
    assert_true(send(fd, request, strlen(request), 0) > 0);
    read_until(fd, text, sizeof text, "text/event-stream");
    json_t *json = json_pack("{s:i}", "x", 1);
    http_events_publish(events, "board", json);
    read_until(fd, text, sizeof text, "id: 1\nevent: board\ndata: {\"x\":1}");
    close(fd);
    http_events_publish(events, "job", json);
    request = "GET /events HTTP/1.1\r\nHost: localhost\r\nLast-Event-ID: 1\r\n\r\n";
    fd = dial();
    text[0] = 0;
    assert_true(send(fd, request, strlen(request), 0) > 0);
    read_until(fd, text, sizeof text, "id: 2\nevent: job");
    close(fd);
    for (int i = 0; i < 5; i++)
        http_events_publish(events, "job", json);
    json_decref(json);
    fd = dial();
    text[0] = 0;
    assert_true(send(fd, request, strlen(request), 0) > 0);
    read_until(fd, text, sizeof text, "id: 7\nevent: reset");
    close(fd);
}

static void dripped_headers_are_cut_off(void **state)
{
    (void)state;
    int fd = dial();
    const char *start = "GET /things/a HTTP/1.1\r\nHost: local";
    assert_true(send(fd, start, strlen(start), 0) > 0);
    char c;
    for (int i = 0; i < 9; i++) {
        usleep(1000000);
        if (send(fd, "x", 1, MSG_NOSIGNAL) < 0)
            break;
    }
    struct timeval limit = {.tv_sec = 1};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    ssize_t n = recv(fd, &c, 1, 0);
    assert_true(n == 0 || (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK));
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(route_decodes_names_strictly),
        cmocka_unit_test(wrong_method_names_the_right_one),
        cmocka_unit_test(query_numbers_are_checked),
        cmocka_unit_test(host_and_origin_are_checked),
        cmocka_unit_test(length_stated_twice_is_refused),
        cmocka_unit_test(json_errors_name_the_place),
        cmocka_unit_test(body_limits_hold_with_and_without_a_stated_length),
        cmocka_unit_test(a_body_that_is_too_large_is_read_before_it_is_refused),
        cmocka_unit_test(wrong_type_prints_the_right_curl_line),
        cmocka_unit_test(spooled_upload_is_hashed),
        cmocka_unit_test(pending_exchanges_are_finished_from_another_thread),
        cmocka_unit_test(full_queue_says_busy_at_once),
        cmocka_unit_test(event_streams_resume_from_the_ring),
        cmocka_unit_test(dripped_headers_are_cut_off),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
