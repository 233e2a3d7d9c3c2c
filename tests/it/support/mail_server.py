"""A mail server that wants STARTTLS and a password, and shows what it took.

usage: mail_server.py SMTP_PORT HTTP_PORT CERTIFICATE KEY

GET /messages   every mail so far: message id, sender, receivers, subject, text, whether it came encrypted
GET /refuse?N   answers the next N mails with 451, which is a failure for now
"""

import email
import email.policy
import json
import ssl
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult

mails = []
refused = [0]


class Sink:
    async def handle_DATA(self, server, session, envelope):
        if refused[0] > 0:
            refused[0] -= 1
            return "451 4.3.0 try again later"
        mail = email.message_from_bytes(envelope.content, policy=email.policy.default)
        mails.append(
            {
                "id": mail["message-id"],
                "from": envelope.mail_from,
                "to": envelope.rcpt_tos,
                "subject": mail["subject"],
                "text": mail.get_content(),
                "encrypted": session.ssl is not None,
            }
        )
        return "250 OK"


def authenticate(server, session, envelope, mechanism, data):
    right = data.login == b"drift" and data.password == b"secret-of-the-mail"
    return AuthResult(success=right)


class Shown(BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path.startswith("/refuse?"):
            refused[0] = int(self.path.split("?")[1])
        body = json.dumps(mails).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


smtp_port, http_port, certificate, key = sys.argv[1:]
context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
context.load_cert_chain(certificate, key)


class Encrypted(Controller):
    def factory(self):
        return SMTP(
            self.handler,
            hostname="localhost",
            tls_context=context,
            require_starttls=True,
            auth_required=True,
            authenticator=authenticate,
        )


Encrypted(Sink(), hostname="127.0.0.1", port=int(smtp_port)).start()
HTTPServer(("127.0.0.1", int(http_port)), Shown).serve_forever()
