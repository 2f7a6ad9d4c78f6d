/**
 * Forms from JSON Schema. What is typed stays text until it is sent, so numbers keep their digits, also in fields that nobody
 * touched. Null, empty text and left out are three things.
 */

import { Exact, isNumber, type Json, numberOf, parse, stringify } from "../api/json";

export type Kind =
  | "text"
  | "integer"
  | "number"
  | "decimal"
  | "date"
  | "time"
  | "date-time"
  | "boolean"
  | "choice"
  | "list"
  | "object"
  | "json";

/** One field of a form. `path` is its place in the value: `contact.name`; the root has an empty one. */
export interface Spec {
  path: string;
  name: string;
  label: string;
  kind: Kind;
  isRequired: boolean;
  isNullable: boolean;
  /** What the value is if it is left out; undefined if that is not known. */
  preset: Json | undefined;
  choices: Json[];
  fields: Spec[];
  item: Spec | null;
  limits: Limits;
  format: string;
}

interface Limits {
  minimum?: Json;
  maximum?: Json;
  exclusiveMinimum?: Json;
  exclusiveMaximum?: Json;
  minLength?: number;
  maxLength?: number;
  pattern?: string;
  minItems?: number;
  maxItems?: number;
}

/** What an empty field means. `unset`: nothing yet, and something is needed. `text`: the empty text, or the empty list. */
export type Empty = "unset" | "absent" | "null" | "text";

/** The state of a field. It is plain JSON, so that a draft can be kept. */
export interface Entry {
  empty: Empty;
  text?: string;
  items?: string[];
  /** The place of the choice; for yes and no, 1 and 0. */
  choice?: number | null;
  fields?: { [name: string]: Entry };
}

type Schema = { [key: string]: Json };

const isSchema = (value: unknown): value is Schema =>
  typeof value === "object" && value !== null && !Array.isArray(value) && !(value instanceof Exact);

const KINDS: { [type: string]: Kind } = {
  string: "text",
  integer: "integer",
  number: "number",
  boolean: "boolean",
  array: "list",
  object: "object",
};
const FORMATS: { [format: string]: Kind } = {
  decimal: "decimal",
  date: "date",
  time: "time",
  "date-time": "date-time",
};

/** The form of a schema; of null, any JSON. */
export function formOf(schema: unknown, label = "Answer"): Spec {
  const root = isSchema(schema) ? schema : {};
  const definitions = isSchema(root.$defs) ? root.$defs : {};
  return new Builder(definitions).spec(root, { path: "", name: "", label, isRequired: true });
}

/** The form of parameters, each with its own schema. */
export function formOfParameters(
  parameters: { name: string; required: boolean; schema: unknown; default?: unknown }[],
): Spec {
  const fields = parameters.map(({ name, required, schema, default: preset }) => {
    const found = formOf(schema, name);
    return { ...withPath(found, name), name, isRequired: required, preset: preset as Json | undefined };
  });
  return { ...bare("", "", "Parameters", "object"), fields };
}

function withPath(spec: Spec, prefix: string): Spec {
  const path = spec.path ? `${prefix}.${spec.path}` : prefix;
  return { ...spec, path, fields: spec.fields.map((field) => withPath(field, prefix)) };
}

function bare(path: string, name: string, label: string, kind: Kind): Spec {
  return {
    path,
    name,
    label,
    kind,
    isRequired: true,
    isNullable: false,
    preset: undefined,
    choices: [],
    fields: [],
    item: null,
    limits: {},
    format: "",
  };
}

interface Place {
  path: string;
  name: string;
  label: string;
  isRequired: boolean;
}

class Builder {
  private readonly open: string[] = [];

  constructor(private readonly definitions: Schema) {}

  spec(given: Schema, place: Place): Spec {
    const reference = typeof given.$ref === "string" ? given.$ref : "";
    if (!reference) return this.resolved(given, place);
    const name = reference.slice(reference.lastIndexOf("/") + 1);
    const found = this.definitions[name];
    if (!isSchema(found) || this.open.includes(name)) return { ...bare("", "", "", "json"), ...place };
    this.open.push(name);
    const { $ref: _, ...beside } = given;
    const made = this.resolved({ ...found, ...beside }, place);
    this.open.pop();
    return made;
  }

  private resolved(schema: Schema, place: Place): Spec {
    const choices = Array.isArray(schema.anyOf) ? schema.anyOf.filter(isSchema) : [];
    const others = choices.filter((each) => each.type !== "null");
    if (choices.length && others.length === 1 && others[0]) {
      const { anyOf: _, ...beside } = schema;
      const inner = this.spec({ ...others[0], ...beside }, place);
      return { ...inner, isNullable: inner.isNullable || others.length < choices.length };
    }
    const label = place.path && typeof schema.title === "string" && !schema.properties ? schema.title : place.label;
    const made: Spec = { ...bare("", "", "", "json"), ...place, label };
    if ("default" in schema) made.preset = schema.default;
    if (choices.length || schema.oneOf || schema.allOf) {
      made.isNullable = others.length < choices.length;
      return made;
    }
    const types = (Array.isArray(schema.type) ? schema.type : [schema.type]).filter((type) => type !== undefined);
    made.isNullable = types.includes("null");
    const values = Array.isArray(schema.enum) ? schema.enum : "const" in schema ? [schema.const ?? null] : null;
    if (values) {
      made.kind = "choice";
      made.choices = values.filter((value) => value !== null);
      made.isNullable ||= values.includes(null);
      return made;
    }
    const [type] = types.filter((each) => each !== "null");
    if (typeof type !== "string" || types.length - Number(made.isNullable) !== 1) return made;
    made.format = typeof schema.format === "string" ? schema.format : "";
    made.kind = (type === "string" ? FORMATS[made.format] : undefined) ?? KINDS[type] ?? "json";
    made.limits = schema as Limits;
    if (made.kind === "object") return this.object(schema, made);
    return made.kind === "list" ? this.list(schema, made) : made;
  }

  private object(schema: Schema, made: Spec): Spec {
    if (!isSchema(schema.properties) || isSchema(schema.additionalProperties)) return { ...made, kind: "json" };
    const required = Array.isArray(schema.required) ? schema.required : [];
    made.fields = Object.entries(schema.properties).map(([name, part]) =>
      this.spec(isSchema(part) ? part : {}, {
        path: made.path ? `${made.path}.${name}` : name,
        name,
        label: labelOf(name),
        isRequired: required.includes(name),
      }),
    );
    return made;
  }

  private list(schema: Schema, made: Spec): Spec {
    if (!isSchema(schema.items) || schema.prefixItems) return { ...made, kind: "json" };
    const item = this.spec(schema.items, { path: made.path, name: "", label: made.label, isRequired: true });
    const isPlain = TYPED.has(item.kind) && !item.isNullable;
    return isPlain ? { ...made, item } : { ...made, kind: "json" };
  }
}

/** `credit_limit` is read as `Credit limit`. */
function labelOf(name: string): string {
  const words = name.replaceAll("_", " ").trim();
  return words ? `${words[0]?.toUpperCase()}${words.slice(1)}` : name;
}

const TYPED = new Set<Kind>(["text", "integer", "number", "decimal", "date", "time", "date-time", "json"]);

/** The type in words, at the right of a label. */
export function noteOf(spec: Spec): string {
  const nouns: { [kind in Kind]: string } = {
    text: spec.format || "text",
    integer: "whole number",
    number: "number",
    decimal: "decimal, exact",
    date: "date",
    time: "time",
    "date-time": "date and time",
    boolean: "yes or no",
    choice: spec.choices.length === 1 ? "one value" : `one of ${spec.choices.length}`,
    list: spec.item?.kind === "text" ? "list of text" : `list of ${spec.item ? noteOf(spec.item) : "values"}s`,
    object: "",
    json: "JSON",
  };
  return `${nouns[spec.kind]}${spec.isNullable && spec.kind !== "object" ? " or nothing" : ""}`;
}

/** What an empty field of this kind may mean, the usual one first. */
export function emptiesOf(spec: Spec): Empty[] {
  const found: Empty[] = [];
  if (!spec.isRequired) found.push("absent");
  if (spec.isNullable) found.push("null");
  if (!found.length) found.push("unset");
  if (spec.kind === "text" && !spec.format && !spec.limits.minLength) found.push("text");
  if (spec.kind === "list" && !spec.limits.minItems) found.push("text");
  return found;
}

/** A form that nobody has filled: it shows what is used if nothing is changed. */
export function blank(spec: Spec): Entry {
  const { preset, ...without } = spec;
  const known = preset === undefined || preset === null ? null : filled({ ...without, preset: undefined }, preset);
  return known ?? unfilled(spec);
}

function unfilled(spec: Spec): Entry {
  const empty = emptiesOf(spec)[0] ?? "unset";
  if (spec.kind === "object") return { empty: spec.isRequired ? "unset" : empty, fields: blankFields(spec) };
  if (spec.kind === "list") return { empty, items: [], text: "" };
  if (spec.kind === "boolean" || spec.kind === "choice") return { empty, choice: null };
  return { empty, text: "" };
}

function blankFields(spec: Spec): { [name: string]: Entry } {
  return Object.fromEntries(spec.fields.map((field) => [field.name, blank(field)]));
}

/** The form filled with a value; null if it does not fit, for example because of a field that the form does not have. */
export function filled(spec: Spec, value: Json | undefined): Entry | null {
  const entry = unfilled(spec);
  if (value === undefined) return spec.isRequired ? entry : { ...entry, empty: "absent" };
  if (value === null)
    return spec.kind === "json" ? { ...entry, text: "null" } : spec.isNullable ? { ...entry, empty: "null" } : null;
  switch (spec.kind) {
    case "object":
      return filledObject(spec, value);
    case "list": {
      if (!Array.isArray(value) || !spec.item) return null;
      const items = value.map((each) => filled(spec.item as Spec, each)?.text);
      return items.every((each) => each !== undefined) ? { ...entry, empty: "text", items } : null;
    }
    case "boolean":
      return typeof value === "boolean" ? { ...entry, choice: Number(value) } : null;
    case "choice": {
      const choice = spec.choices.findIndex((each) => stringify(each) === stringify(value));
      return choice < 0 ? null : { ...entry, choice };
    }
    case "integer":
    case "number":
      return typeof value === "number" || value instanceof Exact ? { ...entry, text: String(value) } : null;
    case "json":
      return { ...entry, text: stringify(value, 2) };
    default:
      if (typeof value !== "string") return spec.kind === "decimal" ? decimalOf(value, entry) : null;
      return value ? { ...entry, text: value } : spec.kind === "text" ? { ...entry, empty: "text" } : null;
  }
}

function decimalOf(value: Json, entry: Entry): Entry | null {
  return typeof value === "number" || value instanceof Exact ? { ...entry, text: String(value) } : null;
}

function filledObject(spec: Spec, value: Json): Entry | null {
  if (!isSchema(value)) return null;
  const fields: { [name: string]: Entry } = {};
  for (const field of spec.fields) {
    const found = filled(field, Object.hasOwn(value, field.name) ? value[field.name] : undefined);
    if (!found) return null;
    fields[field.name] = found;
  }
  return Object.keys(value).every((name) => Object.hasOwn(fields, name)) ? { empty: "text", fields } : null;
}

/** Whether the field has no value of its own: then `empty` says what is sent. */
export function isEmpty(spec: Spec, entry: Entry): boolean {
  switch (spec.kind) {
    case "object":
      return entry.empty !== "text" && entry.empty !== "unset";
    case "list":
      return entry.empty !== "text" && !entry.items?.length && !entry.text;
    case "boolean":
    case "choice":
      return entry.choice === null || entry.choice === undefined;
    default:
      return !entry.text;
  }
}

/** The value that is sent; undefined if it is left out. Only for a form without errors. */
export function formValue(spec: Spec, entry: Entry): Json | undefined {
  if (isEmpty(spec, entry)) return entry.empty === "null" ? null : entry.empty === "text" ? "" : undefined;
  switch (spec.kind) {
    case "object": {
      const found: { [key: string]: Json } = {};
      for (const field of spec.fields) {
        const value = formValue(field, entry.fields?.[field.name] ?? blank(field));
        if (value !== undefined) found[field.name] = value;
      }
      return found;
    }
    case "list": {
      const item = spec.item ?? bare("", "", "", "text");
      return itemsOf(entry).map((text) => formValue(item, { empty: "text", text }) ?? "");
    }
    case "boolean":
      return entry.choice === 1;
    case "choice":
      return spec.choices[entry.choice ?? 0] ?? null;
    case "integer":
    case "number":
      return numberOf(trimmed(entry));
    case "json":
      return parse(entry.text ?? "", true);
    case "text":
      return entry.text ?? "";
    default:
      return trimmed(entry);
  }
}

const trimmed = (entry: Entry): string => (entry.text ?? "").trim();

/** The items of a list, with the one that is being typed. */
export function itemsOf(entry: Entry): string[] {
  return [...(entry.items ?? []), ...(entry.text ? [entry.text] : [])];
}

/** What is wrong, by the path of the field. */
export function errorsOf(spec: Spec, entry: Entry): Map<string, string> {
  const found = new Map<string, string>();
  collect(spec, entry, found);
  return found;
}

function collect(spec: Spec, entry: Entry, found: Map<string, string>): void {
  if (isEmpty(spec, entry)) {
    if (entry.empty === "unset")
      found.set(spec.path, spec.kind === "list" ? "Add one, or choose the empty list." : "This is needed.");
    return;
  }
  if (spec.kind === "object") {
    for (const field of spec.fields) collect(field, entry.fields?.[field.name] ?? blank(field), found);
    return;
  }
  const error = spec.kind === "list" ? wrongList(spec, entry) : wrong(spec, entry.text ?? "");
  if (error) found.set(spec.path, error);
}

function wrongList(spec: Spec, entry: Entry): string {
  const items = itemsOf(entry);
  const { minItems = 0, maxItems = Number.POSITIVE_INFINITY } = spec.limits;
  if (items.length < minItems) return `At least ${minItems} are needed.`;
  if (items.length > maxItems) return `At most ${maxItems} are allowed.`;
  for (const text of items) {
    const error = spec.item ? wrong(spec.item, text) : "";
    if (error) return `“${text.slice(0, 40)}”: ${error}`;
  }
  return "";
}

const DECIMAL = /^[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?$/;

function wrong(spec: Spec, text: string): string {
  const typed = text.trim();
  switch (spec.kind) {
    case "integer":
      return /^-?(0|[1-9]\d*)$/.test(typed) ? outside(spec, typed) : "This has to be a whole number, for example 30.";
    case "number":
      return isNumber(typed) ? outside(spec, typed) : "This has to be a number, for example 2.5.";
    case "decimal":
      return DECIMAL.test(typed) ? "" : "This has to be a decimal number, for example 25000.00.";
    case "date":
      return isDate(typed) ? "" : "This has to be a date, for example 2026-12-01.";
    case "time":
      return /^([01]\d|2[0-3]):[0-5]\d(:[0-5]\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)?$/.test(typed)
        ? ""
        : "This has to be a time, for example 12:00:00.";
    case "date-time":
      return isDate(typed.slice(0, 10)) && /^.{10}[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)?$/.test(typed)
        ? ""
        : "This has to be a date and time, for example 2026-12-01T12:00:00Z.";
    case "json":
      return wrongJson(text);
    case "text":
      return wrongText(spec, text);
    default:
      return "";
  }
}

function wrongJson(text: string): string {
  try {
    parse(text, true);
    return "";
  } catch (error) {
    return error instanceof Error ? error.message : "This is not JSON.";
  }
}

function wrongText(spec: Spec, text: string): string {
  const { minLength = 0, maxLength = Number.POSITIVE_INFINITY, pattern } = spec.limits;
  const length = [...text].length;
  if (length < minLength) return `At least ${minLength} characters are needed.`;
  if (length > maxLength) return `At most ${maxLength} characters are allowed; these are ${length}.`;
  if (pattern === undefined) return "";
  try {
    return new RegExp(pattern, "u").test(text) ? "" : `This has to match ${pattern}.`;
  } catch {
    return ""; // the server decides about a pattern that this language does not have
  }
}

function isDate(text: string): boolean {
  if (!/^\d{4}-\d\d-\d\d$/.test(text)) return false;
  const time = Date.parse(`${text}T00:00:00Z`);
  return !Number.isNaN(time) && new Date(time).toISOString().startsWith(text);
}

function outside(spec: Spec, text: string): string {
  const { minimum, maximum, exclusiveMinimum, exclusiveMaximum } = spec.limits;
  const bounds: [Json | undefined, (order: number) => boolean, string][] = [
    [minimum, (order) => order >= 0, "at least"],
    [maximum, (order) => order <= 0, "at most"],
    [exclusiveMinimum, (order) => order > 0, "more than"],
    [exclusiveMaximum, (order) => order < 0, "less than"],
  ];
  for (const [bound, isInside, words] of bounds)
    if ((typeof bound === "number" || bound instanceof Exact) && !isInside(compared(text, String(bound))))
      return `This has to be ${words} ${bound}.`;
  return "";
}

/** The order of two numbers; whole ones are compared digit by digit. */
function compared(one: string, other: string): number {
  const isWhole = [one, other].every((text) => /^-?\d+$/.test(text));
  if (!isWhole) return Number(one) - Number(other);
  const difference = BigInt(one) - BigInt(other);
  return difference < 0n ? -1 : difference > 0n ? 1 : 0;
}
