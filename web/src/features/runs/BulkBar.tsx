import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { Ban, Check, ChevronDown, CirclePause, type LucideIcon, RotateCw, Trash2, X } from "lucide-react";
import { useEffect, useRef, useState } from "react";
import { useNavigate } from "react-router";
import { answer, api, type View } from "@/api/client";
import { keys, useMe } from "@/api/queries";
import { count } from "@/model/durations";
import { Button } from "@/ui/Button";
import { Dialog } from "@/ui/Dialog";
import { Field, INPUT } from "@/ui/Field";
import { Menu, MenuItem } from "@/ui/Menu";
import { toastProblem } from "@/ui/Toast";
import { asked, type Filter, isExact } from "./filter";

type Action = "resume" | "pause" | "cancel" | "retry" | "approve" | "reject" | "delete";

/** What bulk actions are called, what they need, and what is asked. The first are the safe ones. */
const ACTIONS: Record<Action, { word: string; icon: LucideIcon; may: string; text: string }> = {
  resume: { word: "Resume", icon: RotateCw, may: "runs:resume", text: "Each continues where it stopped." },
  pause: {
    word: "Pause",
    icon: CirclePause,
    may: "runs:pause",
    text: "Nodes at work have 5 s to end or reach a checkpoint.",
  },
  cancel: {
    word: "Cancel",
    icon: Ban,
    may: "runs:cancel",
    text: "Nothing more begins in them, and their open questions are withdrawn. A cancelled run cannot be resumed; you can go back in it or fork it.",
  },
  retry: {
    word: "Retry",
    icon: RotateCw,
    may: "runs:retry",
    text: "The node that failed is executed again, on a new branch.",
  },
  approve: { word: "Approve", icon: Check, may: "runs:answer", text: "Each open approval is answered with yes." },
  reject: { word: "Reject", icon: X, may: "runs:answer", text: "Each open approval is answered with no." },
  delete: {
    word: "Delete",
    icon: Trash2,
    may: "runs:delete",
    text: "Their logs, log lines and values are removed. This cannot be undone. Their ids cannot be used again.",
  },
};

/** The most runs that are looked at one by one; more are chosen by the filter. */
const MOST_NAMED = 1000;

interface Props {
  selected: ReadonlySet<string>;
  filter: Filter;
  onClear: () => void;
}

/** What can be done to the selected runs, and for how many of them each action is allowed. */
export function BulkBar({ selected, filter, onClear }: Props) {
  const [isAll, setAll] = useState(false);
  const [action, setAction] = useState<Action | null>(null);
  const may = useMe().data?.permissions ?? [];
  const runs = [...selected].slice(0, MOST_NAMED);
  const names = runs.join(" ");
  // biome-ignore lint/correctness/useExhaustiveDependencies: another selection is not "all" any more
  useEffect(() => setAll(false), [names]);

  const query = asked(filter);
  const ofSelected = usePreview({ runs }, runs.length > 0 && !isAll);
  const ofAll = usePreview({ filter: query }, runs.length > 0 && isExact(filter));
  const preview = isAll ? ofAll : ofSelected;
  if (!selected.size || !may.includes("runs:bulk")) return null;
  const all = ofAll?.matched ?? 0;
  const number = isAll ? all : selected.size;
  const allowed = (Object.keys(ACTIONS) as Action[]).filter(
    (each) => may.includes(ACTIONS[each].may) && (preview?.allowed[each] ?? 0) > 0,
  );
  const [first, second, third, ...more] = allowed;
  return (
    <>
      <section
        aria-label="Selected runs"
        className="fixed inset-x-0 bottom-5 z-30 mx-auto flex w-fit max-w-[calc(100vw-32px)] animate-appear items-center gap-2 rounded-panel border border-line-strong bg-surface px-4 py-2 shadow-float max-md:bottom-16"
      >
        <span role="status" className="font-semibold whitespace-nowrap">
          {count(number)} <span className="max-md:hidden">selected</span>
        </span>
        {!isAll && all > selected.size ? (
          <button
            type="button"
            onClick={() => setAll(true)}
            className="link mr-12 whitespace-nowrap text-text-2 max-md:mr-0"
          >
            <span className="max-md:hidden">Select all {count(all)} that match the filter</span>
            <span className="md:hidden">All {count(all)}</span>
          </button>
        ) : (
          <span className="mr-8 max-md:hidden" />
        )}
        {preview && !allowed.length ? <span className="text-text-2">No action is allowed for them.</span> : null}
        {[first, second, third].map((each, index) =>
          each ? (
            <ActionButton
              key={each}
              action={each}
              allowed={preview?.allowed[each] ?? 0}
              className={index ? "max-md:hidden" : ""}
              onPress={() => setAction(each)}
            />
          ) : null,
        )}
        {allowed.length > 1 ? (
          <Menu
            align="end"
            trigger={
              <Button look="soft" small className={more.length ? "" : "md:hidden"}>
                More <ChevronDown size={14} aria-hidden />
              </Button>
            }
          >
            {allowed.map((each, index) => {
              const { word, icon: Icon } = ACTIONS[each];
              return index === 0 ? null : (
                <MenuItem key={each} onSelect={() => setAction(each)} note={count(preview?.allowed[each] ?? 0)}>
                  <Icon size={16} aria-hidden /> {word}…
                </MenuItem>
              );
            })}
          </Menu>
        ) : null}
        <Button look="flat" small square aria-label="Clear the selection" onClick={onClear}>
          <X size={16} aria-hidden />
        </Button>
      </section>
      {action && preview ? (
        <Confirm
          action={action}
          preview={preview}
          chosen={
            isAll
              ? { filter: query as View<"CountRuns"> }
              : { runs: [...selected].map((run) => ({ run, interaction: "" })) }
          }
          onClose={() => setAction(null)}
        />
      ) : null}
    </>
  );
}

function usePreview(chosen: { runs?: string[]; filter?: ReturnType<typeof asked> }, enabled: boolean) {
  return useQuery({
    queryKey: [...keys.counts, "bulk", chosen.runs ?? { ...chosen.filter, since: Boolean(chosen.filter?.since) }],
    queryFn: ({ signal }) => answer(api.POST("/api/v1/bulk/preview", { body: chosen as View<"PreviewBody">, signal })),
    enabled,
    placeholderData: keepPreviousData,
  }).data;
}

function ActionButton({
  action,
  allowed,
  className,
  onPress,
}: {
  action: Action;
  allowed: number;
  className: string;
  onPress: () => void;
}) {
  const { word, icon: Icon } = ACTIONS[action];
  return (
    <Button look={action === "resume" ? "plain" : "soft"} small className={className} onClick={onPress}>
      <Icon size={14} aria-hidden /> {word} {count(allowed)}
    </Button>
  );
}

interface ConfirmProps {
  action: Action;
  preview: View<"BulkPreviewView">;
  chosen: { filter: View<"CountRuns"> } | { runs: View<"BulkTarget">[] };
  onClose: () => void;
}

/** What will be done, to how many, and which are skipped, before it is done. */
function Confirm({ action, preview, chosen, onClose }: ConfirmProps) {
  const navigate = useNavigate();
  const [reason, setReason] = useState("");
  const [isBusy, setBusy] = useState(false);
  const key = useRef(crypto.getRandomValues(new Uint32Array(4)).join("-")); // pressed twice, it is one bulk action
  const { word, icon: Icon, text } = ACTIONS[action];
  const allowed = preview.allowed[action] ?? 0;
  const skipped = Object.entries(preview.skipped[action] ?? {});
  const noun = `${count(allowed)} ${allowed === 1 ? "run" : "runs"}`;
  const send = async () => {
    setBusy(true);
    try {
      const body = { action, reason, ...chosen } as View<"BulkBody">;
      const headers = { "Idempotency-Key": key.current };
      const made = await answer(api.POST("/api/v1/bulk", { body, params: { header: headers } }));
      navigate(`/bulk/${encodeURIComponent(made.run)}`);
    } catch (error) {
      toastProblem(`Not started: ${word.toLowerCase()} ${noun}`, error);
      setBusy(false);
    }
  };
  return (
    <Dialog
      open
      onClose={onClose}
      title={`${word} ${noun}?`}
      actions={
        <>
          <Button look="flat" onClick={onClose}>
            Leave them as they are
          </Button>
          <Button
            look={action === "cancel" || action === "reject" || action === "delete" ? "danger" : "primary"}
            onClick={send}
            busy={isBusy}
          >
            <Icon size={14} aria-hidden /> {word} {noun}
          </Button>
        </>
      }
    >
      <p>{text}</p>
      {"filter" in chosen ? (
        <p className="mt-2 text-text-2">
          The {count(preview.matched)} that match now are fixed; later ones are not touched.
        </p>
      ) : null}
      {skipped.length ? (
        <div className="mt-3 text-text-2">
          <p>
            {count(preview.matched - allowed)} of {count(preview.matched)} are skipped:
          </p>
          <ul className="mt-1 list-disc pl-5">
            {skipped.map(([why, number]) => (
              <li key={why}>
                {count(number)}: {why}
              </li>
            ))}
          </ul>
        </div>
      ) : null}
      <div className="mt-4">
        <Field label="Reason" note="kept in the logs">
          {(attributes) => (
            <input
              {...attributes}
              value={reason}
              onChange={(event) => setReason(event.target.value)}
              className={INPUT}
            />
          )}
        </Field>
      </div>
    </Dialog>
  );
}
