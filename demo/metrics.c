// SPDX-License-Identifier: MIT
// metrics.c - a program that Prometheus can scrape: it serves the figures of its own allocator.
//
//   cc -O2 -Iinclude demo/metrics.c -Lbuild/release -lmimalloc -pthread -o metrics
//
//   scraper -> GET /metrics -> thread of metrics_serve -> mi_metrics -> buffer -> answer
//
// `metrics [PORT [SECONDS]]` listens on 127.0.0.1 (9464; with 0 the system chooses), prints where,
// and works for a while (without a number until it is stopped). To take over into a program: all
// from here to `main`.
//
// METRICS-1  a scrape allocates nothing: the buffers are those of the one thread that serves.
// METRICS-2  one connection at a time, each for at most WAIT_MS in all: who connects and says
//     or takes nothing, or one byte now and then, holds up other scrapes for so long, and the
//     program not at all.
//
// Deliberately absent: encryption, passwords and other addresses than this machine's. What is served
// tells how busy a program is; put a proxy in front where others may ask.
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <mimalloc.h>

enum { METRICS_SIZE = 64 * 1024, REQUEST_SIZE = 8 * 1024, WAIT_MS = 2000, BACKLOG = 16 };

typedef struct metrics_server_s {
  pthread_t thread;
  int socket;
  char request[REQUEST_SIZE];
  char text[METRICS_SIZE];
} metrics_server_t;

static long long metrics_now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

// Wait until bytes can be read (POLLIN) or written (POLLOUT). False if the time `end_ms` comes first.
static bool metrics_wait(int connection, short what, long long end_ms) {
  for (;;) {
    struct pollfd one = {.fd = connection, .events = what};
    const long long left = end_ms - metrics_now_ms();
    const int count = left > 0 ? poll(&one, 1, (int)left) : 0;
    if (count >= 0 || errno != EINTR) return count > 0;
  }
}

// Read until the empty line behind the head of a request. False if there is none in time, or if it
// is too long.
static bool metrics_read(int connection, char* request, long long end_ms) {
  size_t used = 0;
  while (used + 1 < REQUEST_SIZE && metrics_wait(connection, POLLIN, end_ms)) {
    const size_t room = REQUEST_SIZE - 1 - used;
    const ssize_t count = recv(connection, request + used, room, MSG_DONTWAIT);
    if (count < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (count <= 0) return false;
    used += (size_t)count;
    request[used] = 0;
    if (strstr(request, "\r\n\r\n") != NULL) return true;
  }
  return false;
}

static void metrics_send(int connection, const char* text, size_t size, long long end_ms) {
  while (size > 0 && metrics_wait(connection, POLLOUT, end_ms)) {
    const ssize_t count = send(connection, text, size, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (count <= 0) return;
    text += count;
    size -= (size_t)count;
  }
}

static bool metrics_starts(const char* text, const char* word) {
  return strncmp(text, word, strlen(word)) == 0;
}

static void metrics_answer(metrics_server_t* server, int connection) {
  const long long start_ms = metrics_now_ms();
  const long long end_ms = start_ms + WAIT_MS;
  const bool is_read = metrics_read(connection, server->request, start_ms + WAIT_MS / 2);
  const char* const request = server->request;
  const bool is_head = is_read && metrics_starts(request, "HEAD ");
  const char* const path = request + (is_head ? 5 : 4);
  const char* status = "200 OK";
  const char* type = "text/plain; version=0.0.4; charset=utf-8";
  mi_metrics_format_t format = mi_metrics_prometheus;
  server->text[0] = 0;
  if (!is_read) {
    status = "400 Bad Request";
  } else if (!is_head && !metrics_starts(request, "GET ")) {
    status = "405 Method Not Allowed\r\nAllow: GET, HEAD";
  } else if (!metrics_starts(path, "/metrics ") && !metrics_starts(path, "/metrics?")) {
    status = "404 Not Found";
  } else {
    if (strstr(request, "application/openmetrics-text") != NULL) {
      format = mi_metrics_openmetrics;
      type = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    }
    if (mi_metrics(format, server->text, METRICS_SIZE) >= METRICS_SIZE) {
      status = "500 Internal Server Error"; // the text is empty
    }
  }
  char head[256];
  const size_t length = strlen(server->text);
  snprintf(head, sizeof(head),
           "HTTP/1.1 %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\nConnection: close\r\n\r\n",
           status, type, length);
  metrics_send(connection, head, strlen(head), end_ms);
  if (!is_head) metrics_send(connection, server->text, length, end_ms);
}

static void* metrics_run(void* arg) {
  metrics_server_t* const server = (metrics_server_t*)arg;
  for (;;) {
    const int connection = accept(server->socket, NULL, NULL);
    if (connection < 0) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      return NULL;
    }
    metrics_answer(server, connection);
    shutdown(connection, SHUT_WR);
    close(connection);
  }
}

// Serve metrics on a port of this machine, on a thread of their own, until the process ends. Returns
// the port, or 0, and errno says why.
static unsigned metrics_serve(metrics_server_t* server, unsigned port) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
  socklen_t size = sizeof(address);
  const int yes = 1;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  server->socket = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (server->socket < 0) return 0;
  setsockopt(server->socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  if (bind(server->socket, (struct sockaddr*)&address, size) != 0 ||
      listen(server->socket, BACKLOG) != 0 ||
      getsockname(server->socket, (struct sockaddr*)&address, &size) != 0 ||
      (errno = pthread_create(&server->thread, NULL, &metrics_run, server)) != 0) {
    close(server->socket);
    return 0;
  }
  return ntohs(address.sin_port);
}

// -- A program with some work --

static metrics_server_t server;

enum { KEPT = 4096, SIZE_MAX_OF_BLOCK = 4096, PAUSE_US = 1000 };

int main(int argc, char** argv) {
  const unsigned port = metrics_serve(&server, argc > 1 ? (unsigned)atoi(argv[1]) : 9464);
  if (port == 0) {
    perror("metrics");
    return 1;
  }
  printf("http://127.0.0.1:%u/metrics\n", port);
  fflush(stdout);
  static void* kept[KEPT];
  const time_t end = argc > 2 ? time(NULL) + atoi(argv[2]) : 0;
  for (unsigned i = 0; end == 0 || time(NULL) < end; i++) {
    void** const place = &kept[(unsigned)rand() % KEPT];
    mi_free(*place);
    *place = mi_malloc((size_t)(rand() % SIZE_MAX_OF_BLOCK));
    if (i % 1000 == 0) usleep(PAUSE_US);
  }
  for (size_t i = 0; i < KEPT; i++) mi_free(kept[i]);
  return 0;
}
