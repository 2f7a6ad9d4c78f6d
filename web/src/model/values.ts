/** Values of users as text. Numbers keep their digits: they are never rounded by JavaScript. */

import { Exact, stringify } from "../api/json";

/** A value that is stored beside the log. */
export interface Blob {
  hash: string;
  size: number;
}

const tagged = (value: unknown): { $: string; [key: string]: unknown } | null =>
  typeof value === "object" &&
  value !== null &&
  !(value instanceof Exact) &&
  "$" in value &&
  typeof value.$ === "string"
    ? (value as { $: string })
    : null;

export function blobOf(value: unknown): Blob | null {
  const found = tagged(value);
  if (found?.$ !== "blob" || typeof found.hash !== "string") return null;
  return { hash: found.hash, size: Number(found.size ?? 0) };
}

/** The value as JSON on one line, cut to `length` characters. A large value is not written out to be cut. */
export function oneLine(value: unknown, length = 120): { text: string; isCut: boolean } {
  const parts: string[] = [];
  let left = length + 1;
  const put = (part: string): boolean => {
    parts.push(part.length > left ? part.slice(0, left) : part);
    left -= part.length;
    return left > 0;
  };
  write(value, put);
  const text = parts.join("");
  return text.length > length
    ? { text: `${text.slice(0, Math.max(0, length - 1))}…`, isCut: true }
    : { text, isCut: false };
}

/** Write the value until `put` is false. */
function write(value: unknown, put: (part: string) => boolean): boolean {
  if (value instanceof Exact || value === null || typeof value !== "object") return put(scalar(value));
  let isFirst = true;
  if (Array.isArray(value)) {
    if (!put("[")) return false;
    for (const each of value) {
      if (!isFirst && !put(", ")) return false;
      isFirst = false;
      if (!write(each, put)) return false;
    }
    return put("]");
  }
  if (!put("{")) return false;
  for (const key in value) {
    if (!put(`${isFirst ? "" : ", "}${JSON.stringify(key)}: `)) return false;
    isFirst = false;
    if (!write((value as Record<string, unknown>)[key], put)) return false;
  }
  return put("}");
}

function scalar(value: unknown): string {
  if (typeof value === "string") return JSON.stringify(value.length > 10_000 ? value.slice(0, 10_000) : value);
  return value === undefined ? "" : stringify(value);
}

/** The head of a text that is too large to show: at most `limit` characters, never half of a character. */
export function head(text: string, limit = 65_536): { text: string; isCut: boolean } {
  if (text.length <= limit) return { text, isCut: false };
  const code = text.charCodeAt(limit - 1);
  return { text: text.slice(0, code >= 0xd800 && code < 0xdc00 ? limit - 1 : limit), isCut: true };
}

/** Whether two values are the same JSON. */
export const isSame = (one: unknown, other: unknown): boolean => one === other || stringify(one) === stringify(other);
