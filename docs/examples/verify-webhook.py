# Takes webhooks and verifies them: WEBHOOK_SECRET=whsec_... python3 verify-webhook.py [PORT]
# Nothing has to be installed. The package standardwebhooks does the same.

import base64
import hashlib
import hmac
import json
import os
import sys
import time
from http.server import BaseHTTPRequestHandler, HTTPServer

KEY = base64.b64decode(os.environ["WEBHOOK_SECRET"].removeprefix("whsec_"))


def verified(headers, body):
    """Gives the event of a request; raises ValueError where it is not from Postern, or too old."""
    timestamp = headers.get("webhook-timestamp", "")
    if not timestamp.isdigit() or abs(time.time() - int(timestamp)) > 300:
        raise ValueError("too old")
    signed = f"{headers.get('webhook-id', '')}.{timestamp}.".encode() + body
    wanted = "v1," + base64.b64encode(hmac.new(KEY, signed, hashlib.sha256).digest()).decode()
    given = headers.get("webhook-signature", "").split(" ")
    if not any(hmac.compare_digest(wanted.encode(), one.encode()) for one in given):
        raise ValueError("wrong signature")
    return json.loads(body)


class Hook(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        try:
            event = verified(self.headers, body)
        except ValueError as error:
            self.send_error(400, str(error))
            return
        # An event may come twice: keep webhook-id where that would do harm.
        print(self.headers["webhook-id"], event["type"], event["data"].get("recipient", ""), flush=True)
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        pass


server = HTTPServer(("127.0.0.1", int(sys.argv[1]) if len(sys.argv) > 1 else 9000), Hook)
print("listening", server.server_port, flush=True)
server.serve_forever()
