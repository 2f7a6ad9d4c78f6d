/** How a value can be shown better than as JSON. Nothing of it is ever run: SVG and HTML are texts. */

import { Exact } from "../api/json";

export type Preview =
  | { kind: "image" | "audio"; type: string; data: Uint8Array<ArrayBuffer> }
  | { kind: "text"; text: string; hint: "" | "html" | "svg" }
  | { kind: "table"; columns: string[]; rows: unknown[][]; all: number };

const MAX_ROWS = 200;
const MAX_COLUMNS = 30;
const BASE64 = /^[A-Za-z0-9+/]{16,}={0,2}$/;

const SIGNATURES: [kind: "image" | "audio", type: string, at: number, bytes: number[]][] = [
  ["image", "image/png", 0, [0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a]],
  ["image", "image/jpeg", 0, [0xff, 0xd8, 0xff]],
  ["image", "image/gif", 0, [0x47, 0x49, 0x46, 0x38]],
  ["image", "image/webp", 8, [0x57, 0x45, 0x42, 0x50]],
  ["image", "image/avif", 4, [0x66, 0x74, 0x79, 0x70, 0x61, 0x76, 0x69, 0x66]],
  ["audio", "audio/wav", 8, [0x57, 0x41, 0x56, 0x45]],
  ["audio", "audio/ogg", 0, [0x4f, 0x67, 0x67, 0x53]],
  ["audio", "audio/flac", 0, [0x66, 0x4c, 0x61, 0x43]],
  ["audio", "audio/mpeg", 0, [0x49, 0x44, 0x33]],
  ["audio", "audio/mpeg", 0, [0xff, 0xfb]],
];

/** The kind of media that bytes begin with. */
export function mediaOf(data: Uint8Array): { kind: "image" | "audio"; type: string } | null {
  const found = SIGNATURES.find(([, , at, bytes]) => bytes.every((byte, i) => data[at + i] === byte));
  return found ? { kind: found[0], type: found[1] } : null;
}

/** The bytes of a value that was `bytes` in Python: `{"$": "bytes", "v": "…"}`, or base64 that begins like media. */
function bytesOf(value: unknown): { data: Uint8Array<ArrayBuffer>; isCertain: boolean } | null {
  const marked = value as { $?: unknown; v?: unknown } | null;
  const isMarked = typeof value === "object" && (marked?.$ === "bytes" || marked?.$ === "bytearray");
  const text = isMarked ? marked?.v : value;
  if (typeof text !== "string" || text.length % 4 !== 0 || !BASE64.test(text.slice(0, 400))) return null;
  try {
    return { data: Uint8Array.from(atob(text), (each) => each.charCodeAt(0)), isCertain: isMarked };
  } catch {
    return null;
  }
}

/** How the value can be shown, or null if JSON shows it best. */
export function previewOf(value: unknown): Preview | null {
  const bytes = bytesOf(value);
  if (bytes) {
    const media = mediaOf(bytes.data);
    if (media) return { ...media, data: bytes.data };
    if (bytes.isCertain) {
      const text = decoded(bytes.data);
      return text === null ? null : textPreview(text);
    }
  }
  if (typeof value === "string") return value.includes("\n") || isMarkup(value) ? textPreview(value) : null;
  return tableOf(value);
}

function decoded(data: Uint8Array<ArrayBuffer>): string | null {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(data);
  } catch {
    return null;
  }
}

const isMarkup = (text: string): boolean => /^\s*<(?:!doctype|html|svg|\?xml)\b/i.test(text.slice(0, 200));

function textPreview(text: string): Preview {
  const lines = text.trimEnd().split("\n", MAX_ROWS + 1);
  for (const mark of ["\t", ",", ";"]) {
    const width = (lines[0]?.split(mark).length ?? 1) - 1;
    const isTable = width >= 1 && lines.length >= 3 && lines.every((line) => line.split(mark).length - 1 === width);
    if (isTable && !text.includes('"')) {
      const [columns = [], ...rows] = lines.map((line) => line.replace(/\r$/, "").split(mark));
      const all = text.trimEnd().split("\n").length - 1;
      return { kind: "table", columns: columns.slice(0, MAX_COLUMNS), rows: rows.slice(0, MAX_ROWS), all };
    }
  }
  const hint = isMarkup(text) ? (/<svg\b/i.test(text.slice(0, 400)) ? "svg" : "html") : "";
  return { kind: "text", text, hint };
}

const isScalar = (value: unknown): boolean => value === null || typeof value !== "object" || value instanceof Exact;

/** A list of records whose fields are plain, as a table. */
function tableOf(value: unknown): Preview | null {
  if (!Array.isArray(value) || value.length < 2) return null;
  const head = value.slice(0, MAX_ROWS) as Record<string, unknown>[];
  const isRecord = (each: unknown) =>
    !isScalar(each) &&
    !Array.isArray(each) &&
    Object.values(each as object).every(isScalar) &&
    !("$" in (each as object));
  if (!head.every(isRecord)) return null;
  const columns = [...new Set(head.flatMap((each) => Object.keys(each)))].slice(0, MAX_COLUMNS);
  if (!columns.length) return null;
  return { kind: "table", columns, rows: head.map((each) => columns.map((name) => each[name])), all: value.length };
}

/** The type of a value, as people say it. */
export function typeOf(value: unknown): string {
  if (value === null) return "null";
  if (value === undefined) return "none";
  if (value instanceof Exact) return /[.eE]/.test(value.text) ? "number" : "integer";
  if (typeof value === "string")
    return `text, ${value.length.toLocaleString("en-US")} ${value.length === 1 ? "character" : "characters"}`;
  if (typeof value === "number") return Number.isInteger(value) ? "integer" : "number";
  if (typeof value === "boolean") return "boolean";
  if (Array.isArray(value)) return `list of ${value.length.toLocaleString("en-US")}`;
  const mark = (value as { $?: unknown }).$;
  if (typeof mark === "string") return mark === "blob" ? "stored beside the log" : mark;
  const count = Object.keys(value as object).length;
  return `object with ${count} ${count === 1 ? "field" : "fields"}`;
}
