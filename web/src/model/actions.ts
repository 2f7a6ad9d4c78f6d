/** What a person can do about a run now: what the engine allows and the role permits, the safe action first. */

import type { components } from "../api/schema";

type Detail = components["schemas"]["RunDetailView"];
type Planned = components["schemas"]["PlannedEventView"];

/** An action as it is offered. `to` is the place to go back to, `code` the finding to repair. */
export type Offer =
  | {
      kind:
        | "approve"
        | "reject"
        | "answer"
        | "start"
        | "resume"
        | "decide"
        | "command"
        | "pause"
        | "cancel"
        | "fork"
        | "activate"
        | "migrate"
        | "delete";
    }
  | { kind: "jump" | "retry"; to?: string }
  | { kind: "repair"; code: string };

export interface Offers {
  /** The safe action, with its dry run beside it. */
  first: Offer | null;
  /** Those beside it. */
  row: Offer[];
  /** All others. */
  menu: Offer[];
}

const PERMISSIONS: Record<Offer["kind"], string> = {
  approve: "runs:answer",
  reject: "runs:answer",
  answer: "runs:answer",
  start: "runs:start",
  resume: "runs:resume",
  decide: "runs:resume",
  command: "runs:read",
  pause: "runs:pause",
  cancel: "runs:cancel",
  fork: "runs:fork",
  activate: "runs:activate",
  migrate: "runs:migrate",
  delete: "runs:delete",
  jump: "runs:jump",
  retry: "runs:retry",
  repair: "runs:repair",
};

const isBoolean = (schema: unknown): boolean => (schema as { type?: unknown } | null)?.type === "boolean";

export function offersOf(detail: Detail, permissions: readonly string[]): Offers {
  const allowed = new Map(detail.actions.map((action) => [action.action, action]));
  const may = (offer: Offer | null): offer is Offer =>
    offer !== null && permissions.includes(PERMISSIONS[offer.kind]) && isAllowed(offer);
  const isAllowed = ({ kind }: Offer): boolean => {
    if (kind === "approve" || kind === "reject" || kind === "answer") return allowed.has("answer");
    if (kind === "decide") return allowed.has("resume");
    return kind === "command" || kind === "fork" || allowed.has(kind === "retry" ? "jump" : kind);
  };
  const question = detail.questions[0];
  const jump = allowed.get("jump");
  const back: Offer = jump?.useful && jump.to && !detail.held ? { kind: "jump", to: jump.to } : { kind: "jump" };
  const repair = allowed.get("repair");
  const isOver = detail.status === "completed" || detail.status === "cancelled";
  const failed = detail.status === "failed" && !detail.held;
  const first: (Offer | null)[] = [
    detail.held ? { kind: "decide" } : null,
    question ? { kind: isBoolean(question.schema) ? "approve" : "answer" } : null,
    allowed.get("resume")?.useful ? { kind: "resume" } : null,
    detail.awaits_start ? { kind: "start" } : null,
    detail.status === "created" && !detail.known_by.length ? { kind: "command" } : null,
    failed && "to" in back ? back : null,
  ];
  const found = first.filter(may)[0] ?? null;
  const row: Offer[] = [];
  if (found?.kind === "approve") row.push({ kind: "reject" });
  if (!found && !isOver && !failed) row.push({ kind: "pause" });
  if (!question && !isOver && !failed) row.push({ kind: "cancel" });
  if ((isOver || failed) && found?.kind !== "jump") row.push({ kind: "jump" });
  if (isOver) row.push({ kind: "fork" });
  const all: Offer[] = [
    { kind: "resume" },
    { kind: "pause" },
    { kind: "cancel" },
    { kind: "jump" },
    { kind: "retry" },
    { kind: "fork" },
    ...(detail.branch ? [{ kind: "activate" } as const] : []),
    { kind: "migrate" },
    ...(repair?.code ? [{ kind: "repair", code: repair.code } as const] : []),
    { kind: "delete" },
  ];
  const shown = row.filter(may);
  const taken = new Set([found?.kind, ...shown.map((offer) => offer.kind), ...(detail.held ? ["resume"] : [])]);
  return { first: found, row: shown, menu: all.filter((offer) => may(offer) && !taken.has(offer.kind)) };
}

/** The events in which a node gets another attempt. */
export const attemptsIn = (events: readonly Planned[]): { node: string; attempt: number }[] =>
  events
    .filter((event) => event.type === "NodeScheduled")
    .map((event) => ({ node: String(event.fields.node), attempt: Number(event.fields.attempt) }));

export const opensBranch = (events: readonly Planned[]): { branch: number; cutoff: number } | null => {
  const opened = events.find((event) => event.type === "BranchOpened");
  return opened ? { branch: Number(opened.fields.branch), cutoff: Number(opened.fields.cutoff) } : null;
};

export const ordinal = (number: number): string => {
  const tens = number % 100;
  return `${number}${(tens > 10 && tens < 14 ? "" : ["th", "st", "nd", "rd"][number % 10]) || "th"}`;
};
