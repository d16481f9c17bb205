"""Stands for Chronos's router: takes wakes at http://127.0.0.1:8088/internal/wake (or another port) and prints them."""

from __future__ import annotations

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Router(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        wake = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        print("woken:", wake["user_id"], wake["message"], flush=True)
        self.send_response(204)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Only wakes are printed."""


ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1]) if len(sys.argv) > 1 else 8088), Router).serve_forever()
