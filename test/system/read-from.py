"""Reads From fields with both readers of Python's email package. Standard input: a JSON array of header sections in
base64. Prints one JSON array a header section: the addresses that each way of reading sees."""

import base64
import json
import sys
from email import message_from_bytes, message_from_string, policy
from email.utils import getaddresses, parseaddr


for head in json.load(sys.stdin):
    octets = base64.b64decode(head)
    # Both readers take UTF-8 for octets of no charset; they are given the text that it is.
    field = dict(message_from_bytes(octets).raw_items())["From"]
    field = field.encode("ascii", "surrogateescape").decode("utf-8").replace("\r\n", "")
    new = message_from_string(octets.decode(), policy=policy.default)
    print(json.dumps([
        [address for _, address in getaddresses([field])],
        [parseaddr(field)[1]],
        [address.addr_spec for address in new["from"].addresses],
    ]))
