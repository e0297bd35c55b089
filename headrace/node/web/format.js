// SPDX-License-Identifier: Apache-2.0
// Numbers as a person reads them: three figures and a unit.

const PREFIXES = ["", "k", "M", "G", "T"];

/** 1234567 as "1.23 M"; null as a dash. */
export function scaled(value, digits = 3) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  let order = 0;
  let shown = value;
  while (Math.abs(shown) >= 999.5 && order < PREFIXES.length - 1) {
    shown /= 1000;
    order += 1;
  }
  const whole = order === 0 && Number.isInteger(value);
  const text = whole || shown === 0 ? String(shown) : shown.toPrecision(digits);
  const plain = text.includes("e") ? String(Math.round(shown)) : text;
  return PREFIXES[order] ? `${plain} ${PREFIXES[order]}` : plain;
}

/** Packets per second, short enough to stand beside a line. */
export const rate = (value) => (value === null || value === undefined ? "–" : scaled(value < 10 ? Math.round(value * 10) / 10 : Math.round(value)));

/** Bits per second from bytes per second. */
export function bits(bytes) {
  if (bytes === null || bytes === undefined) return "–";
  const text = scaled(Math.round(bytes * 8));
  return text.includes(" ") ? `${text}bit/s` : `${text} bit/s`;
}

/** Octets in binary units. */
export const octets = (value) => (value >= 2 ** 30 ? `${(value / 2 ** 30).toFixed(1)} GiB` : `${Math.round(value / 2 ** 20)} MiB`);

/** A share of one. */
export const percent = (share) => (share === null || share === undefined ? "–" : `${(share * 100).toFixed(share > 0 && share < 0.1 ? 1 : 0)} %`);

/** Cycles per packet. */
export const cycles = (value) => (value === null || value === undefined ? "–" : value < 10 ? value.toFixed(1) : scaled(Math.round(value)));

/** A count with thin spaces between the thousands. */
export const count = (value) => (value === null || value === undefined ? "–" : String(value).replace(/\B(?=(\d{3})+$)/g, "\u202f"));

/** MiB. */
export const mebibytes = (value) => (value >= 10240 ? `${(value / 1024).toFixed(1)} GiB` : `${value} MiB`);

/** The time of day of a Unix time in seconds. */
export const clock = (at) => new Date(at * 1000).toLocaleTimeString([], { hour12: false });

/** A text, cut in the middle to `length` characters. */
export function short(text, length) {
  if (text.length <= length) return text;
  const head = Math.ceil((length - 1) / 2);
  return `${text.slice(0, head)}…${text.slice(text.length - (length - 1 - head))}`;
}
