"""nginx with two workers: static files, packed on the fly, assembled from parts, over HTTP/1.1 and HTTP/2.

Each connection and each request has a pool: some blocks of 256 bytes to 4 KiB that are freed together when it ends.
Beside the pools stand buffers of 1 to 32 KiB and the 256 KiB of a deflate stream. So: few sizes, little alive, and
the question whether the memory that one request gave back is what the next one gets. The master only watches.
The time is that of the client: h2load, because it can send a fixed number of requests (wrk runs for a fixed time).
"""
import os
import random

from suite import catalog
from suite.context import Failed, checksum, free_port, listens

REQUESTS = {"tiny": 200, "quick": 4000, "full": 8000}
CONFIG = """
daemon off; worker_processes 2; pid nginx.pid; error_log stderr crit; {user}
events {{ worker_connections 256; }}
http {{
  access_log off; default_type text/html; types {{ }}
  client_body_temp_path tmp-body; proxy_temp_path tmp-proxy; fastcgi_temp_path tmp-fastcgi;
  uwsgi_temp_path tmp-uwsgi; scgi_temp_path tmp-scgi;
  keepalive_requests 1000000;
  server {{
    listen 127.0.0.1:{port}; listen 127.0.0.1:{port2} http2;
    root {files};
    location /packed/ {{ alias {files}/; gzip on; gzip_comp_level 1; gzip_min_length 100; }}
    location /parts/ {{ alias {files}/; ssi on; sub_filter 'abc' '<b>abc</b>'; sub_filter_once off; }}
    location /proxy/ {{ proxy_pass http://127.0.0.1:{port}/; proxy_buffers 8 4k; }}
  }}
}}
"""


def prepare(folder, scale):
    draw, files = random.Random(1), folder / "files"
    files.mkdir(exist_ok=True)
    for number in range(20):
        text = "".join(draw.choices("abcdefgh     \n", k=300 + number ** 3 * 4))
        (files / f"f{number}.html").write_text(text)
    (files / "page.html").write_text("".join(f"<h1>{i}</h1><!--#include virtual=\"/f{i}.html\" -->" for i in range(8)))


def run(context):
    port, port2, count = free_port(), free_port(), REQUESTS[context.scale]
    user = "user root;" if os.geteuid() == 0 else ""
    config = CONFIG.format(user=user, port=port, port2=port2, files=context.folder / "files")
    (context.scratch / "nginx.conf").write_text(config)
    server = context.start(["/usr/sbin/nginx", "-p", f"{context.scratch}/", "-c", "nginx.conf", "-e", "stderr"])
    context.ready(server, lambda: listens(port) and listens(port2))
    sizes = []
    for base, paths, share in (
            (f"http://127.0.0.1:{port}", ["f3.html", "packed/f15.html", "parts/page.html", "proxy/f9.html", "none"], 1),
            (f"http://127.0.0.1:{port2}", ["f1.html", "f12.html", "packed/f8.html", "none"], 2)):
        version = ["--h1"] if share == 1 else ["-m", "10"]
        urls = [f"{base}/{path}" for path in paths]
        with context.timed():
            done = context.client(["h2load", *version, "-n", count * share, "-c", "20", "-t", "1",
                                   "-H", "Accept-Encoding: gzip", *urls])
        report = done.stdout.decode()
        lines = [line for line in report.splitlines() if line.startswith(("requests:", "status codes:"))]
        if f"{count * share} done" not in report or " 0 errored, 0 timeout" not in report:
            raise Failed(f"h2load: {report[-2000:]} {server.errors()}")
        sizes += lines + [context.client(["curl", "-s", "--compressed", url]).stdout for url in urls if share == 1]
    server.terminate()
    return checksum(*sizes)


WORKLOAD = catalog.Program(name="nginx", group="programs", prepare=prepare, run=run,
                           needs=[("/usr/sbin/nginx", "nginx-light"), ("h2load", "nghttp2-client"), ("curl", "curl")],
                           sentence="nginx with two workers: files, gzip, parts, proxy, HTTP/1.1 and HTTP/2")
