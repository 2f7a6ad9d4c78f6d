/** Inputs of a node as fields of a form, which lose no digit. */

import { Exact, isNumber, type Json, numberOf, parse, stringify } from "../api/json";

export type FieldKind = "text" | "number" | "boolean" | "null" | "JSON";

/** The kind of a value, as it is said beside its field. */
export function kindOf(value: unknown): FieldKind {
  if (typeof value === "string") return "text";
  if (typeof value === "number" || value instanceof Exact) return "number";
  if (typeof value === "boolean") return "boolean";
  return value === null || value === undefined ? "null" : "JSON";
}

/** What stands in the field of a value. */
export const textOf = (value: unknown): string =>
  typeof value === "string"
    ? value
    : value instanceof Exact
      ? value.text
      : stringify(value, kindOf(value) === "JSON" ? 2 : 0);

/** The value that a field holds; a sentence if it holds none. */
export function valueIn(kind: FieldKind, text: string): { value: Json } | { error: string } {
  if (kind === "text") return { value: text };
  if (kind === "number")
    return isNumber(text.trim()) ? { value: numberOf(text.trim()) } : { error: "This is not a number." };
  try {
    return { value: parse(text, true) };
  } catch {
    return { error: 'This is not JSON. Texts stand in quotes: "like this".' };
  }
}

/** The fields to send: those that differ from what the node was called with, and those that a person had replaced before,
 *  because a field that is not sent has the value that the code passes. */
export function changedInputs(
  inputs: Record<string, unknown>,
  texts: Record<string, string>,
  replaced: readonly string[] = [],
): { values: Record<string, Json>; errors: Record<string, string> } {
  const values: Record<string, Json> = {};
  const errors: Record<string, string> = {};
  for (const name of replaced) if (name in inputs) values[name] = inputs[name] as Json;
  for (const [name, text] of Object.entries(texts)) {
    const before = inputs[name];
    if (text === textOf(before)) continue;
    const found = valueIn(kindOf(before), text);
    if ("error" in found) errors[name] = found.error;
    else values[name] = found.value;
  }
  return { values, errors };
}
