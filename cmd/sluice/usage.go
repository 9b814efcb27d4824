// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

const usage = `sluice limits the rate of HTTP requests.

  sluice serve [flags]     pass requests on to a service, within limits
  sluice lint FILE         check a configuration file and say it in plain words
  sluice convert nginx FILE  turn nginx's request limits into such a file
  sluice profiles [NAME]   the platforms whose limits have a name, for --like
  sluice status            what a running sluice has let through
  sluice key show|reset|override  what a key has left, and how to change it
  sluice explain URL       what would become of a request, and why
  sluice version           print the version
  sluice serve --help      all flags, with examples

Start here; it needs no service, it brings a sample app:

  sluice serve
  curl -i 'http://127.0.0.1:8080/?userId=u1'

In front of your own service, 100 requests a minute for each client address:

  sluice serve --upstream http://127.0.0.1:3000 --limit 100/min --by ip

With rules for paths, users and plans, written in a file that may change while
it runs (docs/configuration.md):

  sluice serve --config sluice.yaml
`

const serveUsage = `sluice serve passes HTTP requests on to a service, within limits.

  --config FILE      what is served and limited is in FILE, see
                     docs/configuration.md. It is read again when it changes, or
                     a file of keys that it names does, or on SIGHUP; one with
                     faults is not put in force. Beside it go only:
  --drain DURATION   how long requests may take to end after a signal to stop
                     (default 30s); a second signal ends them at once
  --overrides FILE   keep what "sluice key override" does over a restart
  --audit FILE       append every change to FILE (default: standard error)
  --log-format FORM  of the program's own log, on standard error: text or json
                     (default text)
  --log-level LEVEL  log nothing below debug, info, warn or error (default info)

Without --config these say it. With --print-config nothing is served, and the
file that says the same is written to standard output:

  --upstream URL     the service, such as http://127.0.0.1:3000, https://, or
                     h2c:// for gRPC without TLS; without it a built-in sample
                     app answers
  --limit TEXT       at most so many; repeat it for several, all of which must
                     have room (without --upstream: "10/min sliding-log")
  --block TEXT       keep who is denied often out for a while: "10min after 20
                     denials/min"; repeatable
  --like NAME        limit as a platform does, in the place of --limit:
                     shopify-rest, github, nginx and so on; "sluice profiles"
                     lists them and says what differs
  --by PART          whose budget a request draws on; repeat it for one budget
                     per combination: ip, host, header.NAME, cookie.NAME,
                     query.NAME, method, path.N (the N-th part of the path, from
                     1), ip/24/48 (networks of IPv4 and IPv6)
                     (default: ip; without --upstream: query.userId)
  --trust NETWORK    believe X-Forwarded-For of the proxies in NETWORK, such as
                     10.0.0.0/8; repeatable (default: believe nobody)
  --listen ADDRESS   where clients come in (default 127.0.0.1:8080)
  --admin ADDRESS    where /healthz, /readyz and /metrics are, and what "sluice
                     status", "sluice key" and "sluice explain" ask, or "off"
                     (default 127.0.0.1:9090)
  --admin-public     let --admin be an address that other machines can reach:
                     there it answers neither of these
  --admin-host NAME  a name by which --admin may be asked, beside its IP address
                     and localhost; repeatable
  --fields LIST      header fields of the answers, by commas: draft-11,
                     x-ratelimit, x-ratelimit-epoch, or none (default draft-11;
                     without --upstream: draft-11,x-ratelimit)
  --state FILE       keep the state of all keys over a restart: read FILE at the
                     start, write it at a clean stop
  --store URL        share the limits with all who name the same store:
                     redis://HOST, redis-sentinel://HOST,HOST/MASTER or
                     redis-cluster://HOST,HOST; rediss:// and so on with TLS.
                     A user may be in it; the password is read from the variable
                     SLUICE_STORE_PASSWORD or by ?password_file=FILE. Further
                     parameters: ca_file, cert_file, key_file, prefix, timeout.
                     env:REDIS_URL reads the URL from that variable, where a
                     password may be in it
  --failure POLICY   while that store is away: open lets requests through,
                     local gives each node its share of the limits, closed
                     refuses (default open)
  --decision-log PATH  write a line of JSON for each request to PATH, stdout or
                     stderr: docs/decision-log.md; SIGHUP opens it again
  --access-log PATH  write a line in the combined format of nginx and Apache
  --upstream-host    send the upstream's own name in Host, not the client's

Limits:

  100/min                          token bucket: 100 at once, then 100 a minute
  10/s burst 20                    token bucket: 20 at once, then 10 a second
  100/min sliding-log              never more than 100 in any minute, exactly
  1000000/h sliding-histogram      the same in little memory, for large quotas
  100/min sliding-counter          about that, in least memory
  5/min fixed-window               5 in each minute of the clock
  1000/day calendar Asia/Seoul     1000 in each day there
  1/3s leaky-bucket                one every 3 s
  100MB/min                        bytes of the responses' bodies

Examples:

  sluice serve
  sluice serve --upstream http://127.0.0.1:3000 --limit 100/min --by ip
  sluice serve --upstream http://127.0.0.1:3000 --limit 10/s --limit "1000/day calendar UTC" --by header.X-Api-Key
  sluice serve --upstream http://127.0.0.1:3000 --like shopify-rest --by header.X-Shop
  sluice serve --upstream http://127.0.0.1:3000 --limit 100/min --store redis://127.0.0.1:6379 --failure local
`
