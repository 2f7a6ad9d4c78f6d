import { Check, X } from "lucide-react";
import { useState } from "react";
import { useNavigate } from "react-router";
import { answer, api, type View } from "@/api/client";
import { counted } from "@/model/durations";
import { Button } from "@/ui/Button";
import { Dialog } from "@/ui/Dialog";
import { useOnce } from "@/ui/once";
import { toast, toastProblem } from "@/ui/Toast";
import type { Item } from "./questions";

const PATIENCE_MS = 8000;

/** The bar for the ticked approvals: one decision for all, with a result for each. */
export function DecideTogether({
  items,
  onDecided,
  onClear,
}: {
  items: Item[];
  onDecided: (items: Item[]) => void;
  onClear: () => void;
}) {
  const navigate = useNavigate();
  const [isAsking, setAsking] = useState(false);
  const [decide, isBusy] = useOnce(async (isYes: boolean) => {
    const runs = items.map((item) => ({ run: item.run, interaction: item.id }));
    try {
      let bulk = await answer(
        api.POST("/api/v1/bulk", { body: { action: isYes ? "approve" : "reject", runs, reason: "" } }),
      );
      setAsking(false);
      const until = Date.now() + PATIENCE_MS;
      while (isUnderWay(bulk) && Date.now() < until) {
        await new Promise((resolve) => setTimeout(resolve, 200));
        bulk = await answer(api.GET("/api/v1/bulk/{run}", { params: { path: { run: bulk.run } } }));
      }
      const open = { name: "Show", onPress: () => void navigate(`/bulk/${bulk.run}`) };
      toast(resultOf(bulk, isYes, open));
      onClear();
      onDecided(items);
    } catch (error) {
      toastProblem(isYes ? "Not approved" : "Not rejected", error);
    }
  });
  const count = items.length;
  return (
    <>
      <section
        aria-label="Ticked approvals"
        className="fixed bottom-6 left-6 z-20 flex animate-appear items-center gap-2 rounded-panel border border-line-strong bg-surface py-2 pr-2 pl-4 whitespace-nowrap shadow-float max-md:inset-x-4 max-md:bottom-18 max-md:pl-3"
      >
        <b>{count} ticked</b>
        <span className="flex-1" />
        <Button look="primary" busy={isBusy} busyText="Approving…" onClick={() => decide(true)}>
          <Check size={16} aria-hidden /> Approve {count}
        </Button>
        <Button busy={isBusy} onClick={() => setAsking(true)}>
          Reject {count}…
        </Button>
        <Button look="flat" square aria-label="Untick all" onClick={onClear}>
          <X size={16} aria-hidden />
        </Button>
      </section>
      <Dialog
        open={isAsking}
        onClose={() => setAsking(false)}
        title={`Reject ${counted(count, "approval")}?`}
        actions={
          <>
            <Button look="flat" autoFocus onClick={() => setAsking(false)}>
              Back
            </Button>
            <Button look="danger" busy={isBusy} busyText="Rejecting…" onClick={() => decide(false)}>
              <X size={16} aria-hidden /> Reject {count}
            </Button>
          </>
        }
      >
        The runs go on with the answer no. What was answered meanwhile is skipped.
        <ul className="mt-2 list-disc pl-5 text-text-2">
          {items.slice(0, 6).map((item) => (
            <li key={`${item.run} ${item.id}`} className="break-words">
              {item.text}
            </li>
          ))}
          {count > 6 ? <li>and {count - 6} more</li> : null}
        </ul>
      </Dialog>
    </>
  );
}

const isUnderWay = (bulk: View<"BulkView">) => bulk.done + bulk.skipped + bulk.failed < bulk.confirmed;

function resultOf(bulk: View<"BulkView">, isYes: boolean, action: { name: string; onPress: () => void }) {
  const word = isYes ? "approved" : "rejected";
  const left = bulk.confirmed - bulk.done - bulk.skipped - bulk.failed;
  const parts = [`${bulk.done} ${word}`];
  if (bulk.skipped) parts.push(`${bulk.skipped} skipped`);
  if (bulk.failed) parts.push(`${bulk.failed} failed`);
  if (left) parts.push(`${left} under way`);
  const reason = bulk.outcomes.find((each) => each.reason)?.reason;
  const tone = bulk.failed ? ("fail" as const) : bulk.skipped || left ? ("note" as const) : ("done" as const);
  return { tone, title: parts.join(", "), text: reason, action };
}
