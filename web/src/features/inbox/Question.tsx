import { Check, Info, X } from "lucide-react";
import { useMemo, useState } from "react";
import { Link } from "react-router";
import { answer, api } from "@/api/client";
import { useMe } from "@/api/queries";
import { shortId } from "@/model/names";
import { formOf } from "@/model/schema-form";
import { Button } from "@/ui/Button";
import { Comment } from "@/ui/Comment";
import { Dialog } from "@/ui/Dialog";
import { FormArea, FormSwitch, onSendKey, useForm } from "@/ui/FormArea";
import { Notice } from "@/ui/Notice";
import { useOnce } from "@/ui/once";
import { toast, toastProblem } from "@/ui/Toast";
import { QuestionHead } from "./QuestionHead";
import type { Item } from "./questions";

export function Question({ item, mayAnswer, onDecided }: { item: Item; mayAnswer: boolean; onDecided: () => void }) {
  const role = useMe().data?.role;
  return (
    <>
      <QuestionHead item={item} />
      {item.isGone ? (
        <div className="px-4 pt-3">
          <Notice hue="idle" icon={Info}>
            It is not open any more: it was answered, or the run has ended.{" "}
            <Link to={`/runs/${item.run}`} className="link">
              See what became of it
            </Link>
          </Notice>
        </div>
      ) : null}
      {!mayAnswer && role ? (
        <p className="px-4 py-3 text-text-2">Your role, {role}, cannot answer. Ask an operator.</p>
      ) : item.kind === "approval" ? (
        <Approval item={item} onDecided={onDecided} />
      ) : (
        <Form item={item} onDecided={onDecided} />
      )}
    </>
  );
}

const FOLLOWS = "The run goes on at once. The answer stays in the log; to change it, go back to the question.";

function Approval({ item, onDecided }: { item: Item; onDecided: () => void }) {
  const [isAsking, setAsking] = useState(false);
  const [comment, setComment] = useState("");
  const [decide, isBusy] = useOnce(async (isYes: boolean) => {
    try {
      const of = { params: { path: { run: item.run } }, body: { interaction: item.id, comment: isYes ? "" : comment } };
      await answer(isYes ? api.POST("/api/v1/runs/{run}/approve", of) : api.POST("/api/v1/runs/{run}/reject", of));
      setAsking(false);
      toast({ title: `${shortId(item.run)} ${isYes ? "approved" : "rejected"}`, text: item.text });
      onDecided();
    } catch (error) {
      toastProblem(isYes ? "Not approved" : "Not rejected", error);
    }
  });
  return (
    <>
      <Actions note={FOLLOWS}>
        <Button look="primary" busy={isBusy} busyText="Sending…" disabled={item.isGone} onClick={() => decide(true)}>
          <Check size={16} aria-hidden /> Approve
        </Button>
        <Button busy={isBusy} disabled={item.isGone} onClick={() => setAsking(true)}>
          <X size={16} aria-hidden /> Reject…
        </Button>
      </Actions>
      <Dialog
        open={isAsking}
        onClose={() => setAsking(false)}
        title={`Reject: ${item.text}`}
        actions={
          <>
            <Button look="flat" autoFocus onClick={() => setAsking(false)}>
              Back
            </Button>
            <Button look="danger" busy={isBusy} busyText="Rejecting…" onClick={() => decide(false)}>
              <X size={16} aria-hidden /> Reject
            </Button>
          </>
        }
      >
        <p className="mb-3">The run goes on with the answer no.</p>
        <Comment value={comment} onChange={setComment} />
      </Dialog>
    </>
  );
}

function Form({ item, onDecided }: { item: Item; onDecided: () => void }) {
  const spec = useMemo(() => formOf(item.schema), [item.schema]);
  const form = useForm(`answer ${item.run} ${item.id}`, spec);
  const [refusal, setRefusal] = useState("");
  const [submit, isBusy] = useOnce(async () => {
    if (!form.check() || form.value === undefined || item.isGone) return;
    setRefusal("");
    try {
      const body = { interaction: item.id, value: form.value };
      await answer(api.POST("/api/v1/runs/{run}/answer", { params: { path: { run: item.run } }, body }));
      form.clear();
      toast({ title: `${shortId(item.run)} answered`, text: item.text });
      onDecided();
    } catch (error) {
      setRefusal(error instanceof Error ? error.message : String(error));
      toastProblem("Not answered", error);
    }
  });
  const shown = [...form.errors.keys()].filter((path) => form.left.has(path)).length;
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: the keys of its fields are heard here
    <div onKeyDown={onSendKey(submit)}>
      <div className="px-4 py-3">
        <FormArea form={form} />
        {refusal ? (
          <p role="alert" className="mt-3 text-fail">
            {refusal}
          </p>
        ) : null}
      </div>
      <Actions note={FOLLOWS}>
        <Button look="primary" busy={isBusy} busyText="Sending…" disabled={item.isGone} onClick={() => submit()}>
          <Check size={16} aria-hidden /> Answer
        </Button>
        <FormSwitch form={form} />
        {shown ? (
          <span className="self-center text-meta text-fail">
            {shown === 1 ? "1 field is not right yet" : `${shown} fields are not right yet`}
          </span>
        ) : null}
      </Actions>
    </div>
  );
}

/** The buttons below a question; on narrow screens they stay above the bar. */
function Actions({ children, note }: { children: React.ReactNode; note: string }) {
  return (
    <footer className="flex items-center gap-2 rounded-b-panel border-t border-line bg-surface px-4 py-3 max-md:sticky max-md:bottom-14 max-md:flex-col-reverse max-md:items-stretch">
      <div className="flex flex-wrap gap-2 max-md:[&>button:first-child]:flex-1">{children}</div>
      <p className="ml-auto max-w-80 text-right text-meta text-text-2 max-md:max-w-none max-md:text-left">{note}</p>
    </footer>
  );
}
