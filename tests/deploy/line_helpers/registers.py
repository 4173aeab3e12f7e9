"""A helper program: registers in its own memory, and answers that are as wrong as requested."""

import json
import os
import sys
import time

values = {}
for line in sys.stdin:
    request = json.loads(line)
    answer = {"id": request["id"], "type": "ok"}
    f = request.get("f")
    if request["type"] == "hello":
        answer = {"id": request["id"], "type": "hello", "protocol": 1}
    elif request["type"] == "open" and request["node"] == "n9":
        answer = {"id": request["id"], "type": "fail", "error": "n9 refused the connection"}
    elif f == "write":
        values[request["key"]] = request["value"]
    elif f == "read":
        answer["value"] = values.get(request["key"])
    elif f == "pid":
        answer["value"] = os.getpid()
    elif f == "wait":
        time.sleep(60)
    elif f == "garbage":
        print("this is not JSON", flush=True)
        continue
    elif f == "stray":
        answer["id"] = 1
    elif f == "odd":
        answer["type"] = "maybe"
    elif f == "die":
        print("Traceback: out of luck", file=sys.stderr)
        sys.exit(7)
    print(json.dumps(answer), flush=True)
