/** The command line that does the same as the start form. */

import { type Json, parse, stringify } from "../api/json";

/** A word as a shell reads it. */
export function quoted(word: string): string {
  if (/^[A-Za-z0-9_@%+=:,./-]+$/.test(word)) return word;
  return `'${word.replaceAll("'", `'\\''`)}'`;
}

export interface Start {
  entry: string;
  params: { [name: string]: Json };
  id: string;
  title: string;
  tags: string[];
  /** Search attributes as `name=value`. */
  attributes: string[];
  queue: string;
  /** Empty: as the workflow has it. */
  priority: string;
  fairnessKey: string;
  /** Only create it. */
  isLater: boolean;
}

/** The lines of `outlast run`. Texts that would be read as another type are given as JSON. */
export function startCommand(start: Start): string {
  const { entry, params, id, title, tags, attributes, queue, priority, fairnessKey, isLater } = start;
  const words = Object.entries(params).map(([name, value]) => quoted(`${name}=${valueText(value)}`));
  const options = [
    ...(id ? [`--id ${quoted(id)}`] : []),
    ...(title ? [`--title ${quoted(title)}`] : []),
    ...tags.map((tag) => `--tag ${quoted(tag)}`),
    ...attributes.map((each) => `--attribute ${quoted(each)}`),
    ...(queue ? [`--queue ${quoted(queue)}`] : []),
    ...(priority ? [`--priority ${quoted(priority)}`] : []),
    ...(fairnessKey ? [`--fairness-key ${quoted(fairnessKey)}`] : []),
    ...(isLater ? ["--no-start"] : []),
  ];
  const lines = [
    `outlast run ${quoted(entry)}`,
    ...(words.length ? [words.join(" ")] : []),
    ...(options.length ? [options.join(" ")] : []),
  ];
  return lines.join(" \\\n  ");
}

function valueText(value: Json): string {
  return typeof value === "string" && isPlainText(value) ? value : stringify(value);
}

/** Whether the command line takes the text as it is: what is JSON by itself is read as JSON. */
function isPlainText(text: string): boolean {
  try {
    parse(text);
    return false;
  } catch {
    return text !== "";
  }
}
