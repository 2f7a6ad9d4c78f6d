/** The story of a run: the sentences of the server, shortened for people, with what happened between them. */

import type { components } from "../api/schema";
import { micros } from "./events";
import { plainName, shortId } from "./names";
import type { Span } from "./timeline";

type Entry = components["schemas"]["TimelineEntry"];

/** A part of a sentence: plain, the name of a node or run, or a value. */
export interface Part {
  text: string;
  kind: "plain" | "name" | "id" | "value";
}

export interface Sentence {
  seq: number;
  last: number;
  /** In milliseconds: since 1970, and since the creation of the run. */
  time: number;
  elapsed: number;
  kind: string;
  level: Entry["level"];
  node: string;
  attempt: number;
  branch: number;
  parts: Part[];
  /** A value at the end of the sentence. */
  value: string;
  /** What the attempts before it came to. */
  notes: { seq: number; text: string }[];
}

export type Line =
  | { is: "sentence"; sentence: Sentence }
  | { is: "gap"; span: Span }
  | { is: "omitted"; count: number }
  | { is: "left"; from: number; to: number; branches: number[] };

const UUID = /\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b/gi;
/** A value in a sentence begins behind a colon: JSON, or JSON that was cut. */
const VALUE = /^(.*?): ([[{"].*|-?\d[\d.e+-]*|true|false|null)$/is;
/** How long it took, behind the value. */
const AFTER = / \(after [^()"]+\)$/;
const WITH_VALUE = new Set([
  "RunCreated",
  "NodeCompleted",
  "NodeStarted",
  "NodeCheckpointed",
  "RunCompleted",
  "InteractionAnswered",
  "DecisionRecorded",
  "ChildEnded",
]);

export function sentencesOf(entries: readonly Entry[]): Sentence[] {
  return joined(entries.map(sentenceOf));
}

function sentenceOf(entry: Entry): Sentence {
  const after = AFTER.exec(entry.text)?.[0] ?? "";
  const said = entry.text.slice(0, entry.text.length - after.length);
  const found = WITH_VALUE.has(entry.kind) ? VALUE.exec(said) : null;
  const text = (found?.[1] ?? said) + after;
  return {
    seq: entry.seq,
    last: entry.last,
    time: micros(entry.time) / 1000,
    elapsed: entry.elapsed_ms,
    kind: entry.kind,
    level: entry.level,
    node: entry.node,
    attempt: entry.attempt,
    branch: entry.branch,
    parts: partsOf(text, entry.node),
    value: found?.[2] ?? "",
    notes: [],
  };
}

/** The sentence with the name of its node and the ids in it told apart. */
function partsOf(text: string, node: string): Part[] {
  const parts: Part[] = [];
  const put = (kind: Part["kind"], part: string) => {
    if (part) parts.push({ kind, text: part });
  };
  const at = node ? text.indexOf(node) : -1;
  const plain = (piece: string) => {
    let from = 0;
    for (const found of piece.matchAll(UUID)) {
      put("plain", piece.slice(from, found.index));
      put("id", found[0]);
      from = found.index + found[0].length;
    }
    put("plain", piece.slice(from));
  };
  if (at < 0) plain(text);
  else {
    plain(text.slice(0, at));
    put("name", plainName(node));
    plain(text.slice(at + node.length));
  }
  return parts;
}

export const textOf = (sentence: Sentence): string =>
  sentence.parts.map((part) => (part.kind === "id" ? shortId(part.text) : part.text)).join("");

const FAILURE = /^.*? failed(?: after [^:()]*?)?(?: \(attempt \d+\))?: (.*?)(?:; next attempt in .*)?$/s;

/** Failed attempts of a node become notes of the sentence that says how it ended. */
function joined(sentences: Sentence[]): Sentence[] {
  const found: Sentence[] = [];
  const failures = new Map<string, Sentence[]>();
  for (const sentence of sentences) {
    const { node, kind, level } = sentence;
    const isRetried = kind === "NodeFailed" && level === "warning" && node !== "" && sentence.seq === sentence.last;
    if (isRetried) {
      const before = failures.get(node);
      if (before) before.push(sentence);
      else failures.set(node, [sentence]);
      found.push(sentence);
      continue;
    }
    const before = node && (kind === "NodeCompleted" || kind === "NodeFailed") ? failures.get(node) : undefined;
    if (before) {
      failures.delete(node);
      for (const each of before) found.splice(found.indexOf(each), 1);
      sentence.notes = before.map((each) => ({
        seq: each.seq,
        text: `Attempt ${each.attempt}: ${FAILURE.exec(textOf(each))?.[1] ?? textOf(each)}`,
      }));
    }
    found.push(sentence);
  }
  return found;
}

/** A time in which the run was on branches that the shown one left. */
export interface Left {
  from: number;
  to: number;
  branches: number[];
}

/** The sentences with what was between them: gaps in which nothing was at work, times on other branches, omissions. */
export function linesOf(
  sentences: readonly Sentence[],
  gaps: readonly Span[],
  lefts: readonly Left[],
  omitted = { count: 0, at: 0 },
): Line[] {
  const isLeft = (gap: Span) => lefts.some((left) => gap.from >= left.from && gap.to <= left.to);
  const between: (Line & { time: number })[] = [
    ...gaps.filter((gap) => !isLeft(gap)).map((span) => ({ is: "gap" as const, span, time: span.from })),
    ...lefts.map((left) => ({ is: "left" as const, ...left, time: left.from })),
  ].sort((one, other) => one.time - other.time);
  const lines: Line[] = [];
  let next = 0;
  sentences.forEach((sentence, place) => {
    if (omitted.count && place === omitted.at) lines.push({ is: "omitted", count: omitted.count });
    for (let line = between[next]; line && line.time < sentence.time; line = between[++next]) lines.push(line);
    lines.push({ is: "sentence", sentence });
  });
  return [...lines, ...between.slice(next)];
}
