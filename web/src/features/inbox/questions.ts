import { useMemo, useRef, useState } from "react";
import type { View } from "@/api/client";
import { useHeldRuns, useInbox } from "@/api/queries";

/** A question, or a run that is held until a person decides. `id` is empty for a held run. */
export interface Item {
  run: string;
  id: string;
  kind: "approval" | "form" | "held";
  text: string;
  since: string | null;
  due: string | null;
  schema: unknown;
  /** It is not open any more: it stays where it was until the page is left. */
  isGone: boolean;
}

export const keyOf = (item: { run: string; id: string }): string => `${item.run} ${item.id}`;

export function isApproval(schema: unknown): boolean {
  return typeof schema === "object" && schema !== null && "type" in schema && schema.type === "boolean";
}

/** Everything that waits for a person, the longest first. What is new comes to the end; what is gone stays, marked. */
export function useItems() {
  const inbox = useInbox();
  const held = useHeldRuns();
  const before = useRef<Item[]>([]);
  const dropped = useRef(new Set<string>());
  const [drops, setDrops] = useState(0);
  const open = useMemo(() => {
    if (!inbox.data || !held.data) return null;
    return [...inbox.data.questions.map(questionItem), ...held.data.runs.map(heldItem)].sort((one, other) =>
      (one.since ?? "").localeCompare(other.since ?? ""),
    );
  }, [inbox.data, held.data]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: what was dropped counts too
  const items = useMemo(() => {
    if (!open) return null;
    const now = new Map(open.map((item) => [keyOf(item), item]));
    const known = new Set(before.current.map(keyOf));
    const kept = before.current
      .map((item) => now.get(keyOf(item)) ?? { ...item, isGone: true })
      .filter((item) => !item.isGone || !dropped.current.has(keyOf(item)));
    before.current = [...kept, ...open.filter((item) => !known.has(keyOf(item)) && !dropped.current.has(keyOf(item)))];
    return before.current;
  }, [open, drops]);
  return {
    items,
    open: open?.length ?? 0,
    hasMore: Boolean(inbox.data?.next),
    error: inbox.error ?? held.error,
    retry: () => {
      void inbox.refetch();
      void held.refetch();
    },
    /** The person decided these themselves: they leave the list at once. */
    drop: (decided: Item[]) => {
      for (const item of decided) dropped.current.add(keyOf(item));
      before.current = before.current.filter((item) => !dropped.current.has(keyOf(item)));
      setDrops((count) => count + 1);
      void inbox.refetch();
      void held.refetch();
    },
  };
}

const questionItem = (question: View<"InboxItemView">): Item => ({
  run: question.run,
  id: question.id,
  kind: isApproval(question.schema) ? "approval" : "form",
  text: question.text || question.id,
  since: question.since,
  due: question.due,
  schema: question.schema,
  isGone: false,
});

const heldItem = (run: View<"RunView">): Item => ({
  run: run.run,
  id: "",
  kind: "held",
  text: run.reason || "The run is held until a person decides",
  since: run.updated,
  due: null,
  schema: null,
  isGone: false,
});
