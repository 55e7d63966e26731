"""Reads messages with Python's own email package; prints one JSON object a file: what a reader would be shown."""

import json
import pathlib
import sys
from email import message_from_bytes, policy
from email.header import decode_header, make_header
from email.utils import getaddresses


def addresses(message, name):
    """By the older of the package's two readers: the newer one, up to Python 3.13.1, shows the blanks between encoded-words
    in a display name (gh-128110), which RFC 2047 section 6.2 says are not to be shown."""
    field = message.get(name)
    boxes = [] if field is None else getaddresses([field.replace("\r\n", "")])
    return [[str(make_header(decode_header(name))), address] for name, address in boxes]


def text_of(part):
    return None if part is None else part.get_content()


def attachment(part):
    content = part.get_content()
    return {
        # Not get_filename(), which takes angle brackets off a name.
        "filename": part["content-disposition"].params.get("filename"),
        "type": part.get_content_type(),
        "disposition": part.get_content_disposition(),
        "contentId": part["content-id"],
        "content": (content.encode() if isinstance(content, str) else content).hex(),
    }


def leaves(message):
    for part in message.walk():
        if not part.is_multipart() and part.get_content_disposition() is not None:
            yield part


for path in sys.argv[1:]:
    octets = pathlib.Path(path).read_bytes()
    message = message_from_bytes(octets, policy=policy.default)
    fields = message_from_bytes(octets)
    print(json.dumps({
        "subject": message["subject"],
        **{name: addresses(fields, name) for name in ("from", "to", "cc", "reply-to")},
        "custom": message["x-custom"],
        "text": text_of(message.get_body(("plain",))),
        "html": text_of(message.get_body(("html",))),
        "attachments": [attachment(part) for part in leaves(message)],
        "defects": [repr(defect) for part in message.walk() for defect in part.defects],
    }))
