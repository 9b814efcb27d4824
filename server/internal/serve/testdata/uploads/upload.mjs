// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0
//
// upload.mjs ADDRESS PATH TIMES: as upload.py, with node's clients.
import http from "node:http";

const [address, path, times] = process.argv.slice(2);
const url = `http://${address}${path}`;
const part = Buffer.alloc(1 << 16, "x");

function request(size, headers) {
  return new Promise((resolve, reject) => {
    const req = http.request(url, { method: "POST", headers, agent: false });
    req.on("error", reject);
    req.on("response", (res) => {
      res.resume();
      res.on("error", reject);
      res.on("end", () => resolve([res.statusCode, res.headers["retry-after"]]));
    });
    let left = size;
    const write = () => {
      while (left > 0) {
        left -= part.length;
        if (!req.write(part)) {
          req.once("drain", write);
          return;
        }
      }
      req.end();
    };
    write();
  });
}

async function fetched(size) {
  const res = await fetch(url, { method: "POST", body: Buffer.alloc(size, "x") });
  await res.arrayBuffer();
  return [res.status, res.headers.get("retry-after")];
}

for (let n = 0; n < Number(times); n++) {
  for (const mb of [1, 5, 50]) {
    const size = mb << 20;
    for (const [name, send] of Object.entries({
      length: () => request(size, { "Content-Length": size }),
      chunked: () => request(size, { "Transfer-Encoding": "chunked" }),
      fetch: () => fetched(size),
    })) {
      try {
        console.log(name, mb, ...(await send()));
      } catch (e) {
        console.log(name, mb, String(e), String(e.cause ?? ""));
      }
    }
  }
}
