// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

const whole = new Intl.NumberFormat("en");
const short = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 });
const clockFormat = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const minuteFormat = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
const dateFormat = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", year: "numeric", hour: "2-digit", minute: "2-digit" });
const momentFormat = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", year: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit" });

export const count = (n) => (n >= 1e6 ? short.format(n) : whole.format(n));
// inFlight describes the slots of a key.
export const inFlight = ({ limit, decision }) => `In flight: ${count(decision.held)} of ${count(limit.cap)}, ${count(decision.free)} free.`;

export const clock = (at) => clockFormat.format(at);
export const minute = (at) => minuteFormat.format(at);
export const date = (at) => dateFormat.format(new Date(at));
export const moment = (at) => momentFormat.format(new Date(at));
export const zone = () => Intl.DateTimeFormat().resolvedOptions().timeZone;

// from says since when keys are counted.
export const from = (keys) => `since ${Date.now() - Date.parse(keys.since) < 12 * 3600e3 ? minute(Date.parse(keys.since)) : date(keys.since)}`;

// rate writes a number a second, with few digits.
export const rate = (n) => (n === 0 ? "0" : n < 0.1 ? "<0.1" : n < 10 ? n.toFixed(1) : count(Math.round(n)));

// percent writes a share. 0 % and 100 % are exact.
export function percent(part, of) {
  if (!of || !part) return "0 %";
  const p = (100 * part) / of;
  if (p < 0.1) return "<0.1 %";
  if (p > 99.9 && part < of) return ">99.9 %";
  return (p < 10 ? p.toFixed(1) : String(Math.round(p))) + " %";
}

export function bytes(n) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let i = 0;
  for (; n >= 1000 && i < units.length - 1; i++) n /= 1000;
  return (i === 0 || n >= 100 ? Math.round(n) : n.toFixed(1)) + " " + units[i];
}

export const millis = (n) => (n >= 1000 ? n / 1000 + " s" : n >= 1 ? n + " ms" : Math.round(n * 1000) + " µs");

// span writes a length of time in its two largest units.
export function span(ms) {
  const units = [["d", 86400e3], ["h", 3600e3], ["min", 60e3], ["s", 1e3]];
  if (ms < 1000) return ms <= 0 ? "0 s" : ms < 1 ? Math.round(ms * 1000) + " µs" : Math.round(ms) + " ms";
  const i = units.findIndex(([, of]) => ms >= of);
  const first = Math.floor(ms / units[i][1]);
  const rest = i + 1 < units.length ? Math.floor((ms - first * units[i][1]) / units[i + 1][1]) : 0;
  return `${first} ${units[i][0]}` + (rest ? ` ${rest} ${units[i + 1][0]}` : "");
}

export const plural = (n, one, many) => `${count(n)} ${n === 1 ? one : many ?? one + "s"}`;

// nanos writes a duration of the API.
export const nanos = (n) => (n === 0 ? "now" : span(n / 1e6));
