/** Search attributes as text: the same form as on the command line and in queries (`outlast/lifecycle/attributes.py`). */

import { Exact, parse } from "../api/json";
import type { components } from "../api/schema";

export type Attribute = components["schemas"]["RunView"]["attributes"][string];

const NUMBER = /^-?\d+(\.\d+)?([eE][+-]?\d+)?$/;
const TIME = /^\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}.*)?$/;
const ZONED = /(Z|[+-]\d{2}(:?\d{2})?)$/;
const CONDITION = /^([a-z][a-z0-9_]{0,62})(=|<=|>=|<|>)(.*)$/s;

export const OPERATORS = ["=", "<", "<=", ">", ">="] as const;
export type Operator = (typeof OPERATORS)[number];

export function isTime(value: Attribute): value is Extract<Attribute, { time: unknown }> {
  return typeof value === "object" && !((value as unknown) instanceof Exact);
}

export function isNumber(value: Attribute | undefined): boolean {
  return typeof value === "number" || (value as unknown) instanceof Exact;
}

/** A text that looks like a value of another type is written in double quotes. */
export function attributeText(value: Attribute): string {
  if (isTime(value)) return (value.time ?? "").replace(".000000Z", "Z");
  if (typeof value !== "string") return String(value);
  const looksTyped = value === "true" || value === "false" || NUMBER.test(value) || TIME.test(value);
  return looksTyped || value.startsWith('"') ? JSON.stringify(value) : value;
}

/** Whether a text is a condition: a name, an operator and a value. */
export const isCondition = (text: string): boolean => CONDITION.test(text);

/** What is wrong with a value as it is typed; empty if nothing is. */
export function problemWith(value: string): string {
  const isNaked = TIME.test(value) && !ZONED.test(value.slice(10));
  return isNaked ? `Write the time with its zone, such as ${value.slice(0, 10)}T00:00Z.` : "";
}

type Given = { [name: string]: string | number | boolean | { time: string } };

/** Attributes from texts such as `total=12.5`, and what is wrong with them. */
export function parseAttributes(texts: readonly string[]): { attributes: Given; error: string } {
  const attributes: Given = {};
  for (const text of texts) {
    const found = CONDITION.exec(text.trim());
    if (found?.[2] !== "=") return { attributes, error: `Write ${text} as name=value, with a name in small letters.` };
    const [, name = "", , value = ""] = found;
    const problem = name in attributes ? `${name} is there twice.` : problemWith(value);
    if (problem) return { attributes, error: problem };
    attributes[name] = parseAttribute(value);
  }
  return { attributes, error: "" };
}

function parseAttribute(text: string): Given[string] {
  if (text === "true" || text === "false") return text === "true";
  if (NUMBER.test(text)) return parse(text) as number;
  if (TIME.test(text)) return { time: text };
  try {
    const read: unknown = text.startsWith('"') ? JSON.parse(text) : text;
    return typeof read === "string" ? read : text;
  } catch {
    return text;
  }
}
