/** Where two values differ, part by part. */

import { isSame } from "./values";

export interface Difference {
  /** `output.items[3].price`; empty for the whole value. */
  path: string;
  old?: unknown;
  new?: unknown;
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" &&
  value !== null &&
  (Object.getPrototypeOf(value) === Object.prototype || Array.isArray(value));

/** The parts that differ, at most `most`. A part that one side does not have is left out of it. */
export function differences(old: unknown, now: unknown, path = "", most = 200): Difference[] {
  const found: Difference[] = [];
  const walk = (one: unknown, other: unknown, at: string, depth: number): void => {
    if (found.length >= most || isSame(one, other)) return;
    const isAlike = isObject(one) && isObject(other) && Array.isArray(one) === Array.isArray(other);
    if (!isAlike || depth > 40) {
      found.push({ path: at, old: one, new: other });
      return;
    }
    for (const key of new Set([...Object.keys(one), ...Object.keys(other)])) {
      const inner = Array.isArray(one) ? `${at}[${key}]` : at ? `${at}.${key}` : key;
      if (!(key in one)) found.push({ path: inner, new: (other as Record<string, unknown>)[key] });
      else if (!(key in other)) found.push({ path: inner, old: (one as Record<string, unknown>)[key] });
      else walk((one as Record<string, unknown>)[key], (other as Record<string, unknown>)[key], inner, depth + 1);
    }
  };
  walk(old, now, path, 0);
  return found.slice(0, most);
}
