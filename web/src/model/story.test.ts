import { expect, it } from "vitest";
import { linesOf, type Sentence, sentencesOf, textOf } from "./story";

type Entry = Parameters<typeof sentencesOf>[0][number];

function entry(seq: number, kind: string, text: string, rest: Partial<Entry> = {}): Entry {
  const time = new Date(1_793_523_600_000 + seq * 1000).toISOString();
  const plain = { node: "", attempt: 1, branch: 0, count: 1, links: [], last: seq, level: "notice" as const };
  return { seq, time, elapsed_ms: seq * 1000, kind, text, ...plain, ...rest };
}

const parts = (sentence: Sentence | undefined) => sentence?.parts.map(({ kind, text }) => [kind, text]);

it("tells apart the name, the ids and the value of a sentence", () => {
  const [done, taken, ended] = sentencesOf([
    entry(1, "NodeCompleted", 'send~b1[a: {] completed in 1.2 s: {"ok":true}', { node: "send~b1[a: {]" }),
    entry(2, "RunTakenOver", "Worker 01a1f517-ea41-7819-9b00-9c355cf28a09 died"),
    entry(3, "ChildEnded", 'Child run c1 completed: "x" (after 1.36 s)'),
  ]);
  expect(parts(taken)).toEqual([
    ["plain", "Worker "],
    ["id", "01a1f517-ea41-7819-9b00-9c355cf28a09"],
    ["plain", " died"],
  ]);
  expect([textOf(ended as Sentence), ended?.value]).toEqual(["Child run c1 completed (after 1.36 s)", '"x"']);
  expect(done?.value).toContain('"ok":true');
  expect(textOf(taken as Sentence)).toBe("Worker …f28a09 died");
});

it("leaves sentences whole that only look as if a value followed", () => {
  const [failed] = sentencesOf([entry(1, "NodeFailed", 'a failed: E: "x" is wrong', { node: "a", level: "error" })]);
  expect([failed?.value, textOf(failed as Sentence)]).toEqual(["", 'a failed: E: "x" is wrong']);
});

it("makes failed attempts notes of how the node ended", () => {
  const retried = (seq: number, attempt: number) =>
    entry(seq, "NodeFailed", `a failed after 1 s (attempt ${attempt}): E: no; next attempt in 2 s`, {
      node: "a",
      attempt,
      level: "warning",
    });
  const sentences = sentencesOf([
    retried(1, 1),
    entry(2, "NodeCompleted", "b completed", { node: "b" }),
    retried(3, 2),
    entry(4, "NodeCompleted", "a completed (attempt 3)", { node: "a", attempt: 3 }),
    retried(5, 4),
  ]);
  expect(sentences.map(({ seq, notes }) => [seq, notes])).toEqual([
    [2, []],
    [
      4,
      [
        { seq: 1, text: "Attempt 1: E: no" },
        { seq: 3, text: "Attempt 2: E: no" },
      ],
    ],
    [5, []],
  ]);
});

it("puts gaps, other branches and omissions between the sentences", () => {
  const sentences = sentencesOf([entry(1, "RunCreated", "created"), entry(10, "A", "a"), entry(20, "B", "b")]);
  const at = (seq: number) => 1_793_523_600_000 + seq * 1000;
  const gap = (from: number, to: number) => ({ kind: "nobody" as const, who: "", from: at(from), to: at(to) });
  const lines = linesOf(
    sentences,
    [gap(2, 5), gap(12, 14), gap(21, 30)],
    [{ from: at(11), to: at(19), branches: [0] }],
    {
      count: 7,
      at: 2,
    },
  );
  expect(lines.map((line) => (line.is === "sentence" ? line.sentence.seq : line.is))).toEqual([
    1,
    "gap",
    10,
    "omitted",
    "left",
    20,
    "gap",
  ]);
});
