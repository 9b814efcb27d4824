# SPDX-FileCopyrightText: The sluice authors
# SPDX-License-Identifier: Apache-2.0
"""Asks sluice by the Redis protocol, with redis-py."""

import sys

import redis

client = redis.Redis.from_url("redis://" + sys.argv[1], decode_responses=True)
limited, limit, remaining, retry_after, reset_after = client.execute_command("CL.THROTTLE", "mail:42", 2, 3, 3600)
print(f"python: limited {limited}, {remaining} left")

pipe = client.pipeline(transaction=False)  # decided in one batch; there is no MULTI
for _ in range(2):
    pipe.execute_command("SLUICE.TAKE", "llm", "ada", 100)
for allowed, remaining, *_, verdict, limit, receipt in pipe.execute():
    print(f"python: {verdict} by {limit}, {remaining} left")
