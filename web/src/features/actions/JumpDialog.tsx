import { useQuery } from "@tanstack/react-query";
import { Braces, GitBranch, TriangleAlert } from "lucide-react";
import { useState } from "react";
import { answer, api } from "@/api/client";
import { keys } from "@/api/queries";
import { opensBranch } from "@/model/actions";
import { counted } from "@/model/durations";
import { changedInputs, kindOf, textOf, valueIn } from "@/model/inputs";
import { plainName } from "@/model/names";
import { oneLine } from "@/model/values";
import { Button } from "@/ui/Button";
import { Dialog } from "@/ui/Dialog";
import { useDirtyForm } from "@/ui/drafts";
import { AREA, Field, INPUT } from "@/ui/Field";
import { Segments } from "@/ui/Tabs";
import type { Detail, DialogProps } from "./ActionDialogs";
import { Reason } from "./PlainDialogs";
import { PlanPart } from "./PlanPart";
import { type Body, type PlanBody, useActions, useBusy } from "./store";
import { usePlan } from "./usePlan";

type Children = "cancel" | "keep";

/** Go back to a place, with other inputs or another result of a node, or do a node again. */
export default function JumpDialog({ detail, asked, close }: DialogProps<"jump" | "retry" | "result">) {
  const { run } = detail;
  const isResult = asked.kind === "result";
  const [chosen, setChosen] = useState(asked.kind === "result" ? asked.node : String(asked.to ?? ""));
  const isAsked = asked.kind !== "result" && (asked.to ?? "") === "";
  const node = detail.nodes.find((each) => each.node === chosen);
  const inputs = fieldsOf(node?.inputs);
  const [texts, setTexts] = useState<Record<string, string>>({});
  const [result, setResult] = useState("");
  const [feedback, setFeedback] = useState("");
  const [reason, setReason] = useState("");
  const [children, setChildren] = useState<Children>("cancel");
  useDirtyForm(Object.keys(texts).length > 0 || result !== "" || feedback !== "" || reason !== "");

  const changed = changedInputs(inputs, texts, Object.keys(fieldsOf(node?.replaced)));
  const given = isResult ? valueIn("JSON", result) : null;
  const isWrong = Object.keys(changed.errors).length > 0 || (given !== null && "error" in given);
  const isEdited = Object.keys(changedInputs(inputs, texts).values).length > 0;
  const hasFeedback = feedback !== "" && !isEdited;
  const to = /^\d+$/.test(chosen) ? Number(chosen) : chosen;
  const leaving = { reason, children };
  const jump: Body<"JumpBody"> = {
    to,
    ...leaving,
    ...(Object.keys(changed.values).length ? { inputs: changed.values } : {}),
    ...(given && "value" in given ? { output: given.value } : {}),
  };
  const again: Body<"RetryBody"> = { node: chosen, feedback, ...leaving };
  const body: PlanBody = hasFeedback ? { action: "retry", ...again } : { action: "jump", ...jump };
  const plan = usePlan(run, chosen === "" || isWrong ? null : body);
  const opened = opensBranch(plan.data?.would_append ?? []);
  const isBusy = [useBusy("jump", run), useBusy("retry", run)].includes(true);
  const left = useLeft(detail, opened?.cutoff ?? null);
  const name = plainName(chosen);

  return (
    <Dialog
      open
      onClose={close}
      wide
      title={titleOf(asked.kind, chosen, name)}
      actions={
        <>
          <Button look="flat" onClick={close}>
            Keep the run as it is
          </Button>
          <Button
            look="primary"
            busy={isBusy}
            busyText="Opening…"
            disabled={!plan.isCurrent || !plan.data || isWrong}
            onClick={async () => {
              const { jumpWorkflow, retryWorkflow } = useActions.getState();
              if (await (hasFeedback ? retryWorkflow(run, again) : jumpWorkflow(run, jump))) close();
            }}
          >
            {isResult ? <Braces size={16} aria-hidden /> : <GitBranch size={16} aria-hidden />}
            {isResult ? "Continue with this result" : opened ? `Open branch ${opened.branch}` : "Do it again"}
          </Button>
        </>
      }
    >
      <div className="flex flex-col gap-3">
        <Explanation detail={detail} kind={asked.kind} chosen={chosen} cutoff={opened?.cutoff ?? null} />
        {isAsked ? (
          <Field
            label={asked.kind === "retry" ? "Node" : "Place"}
            note={asked.kind === "retry" ? "" : "an event number also counts"}
          >
            {(attributes) => (
              <>
                <input
                  {...attributes}
                  list={`${attributes.id}-places`}
                  className={INPUT}
                  value={chosen}
                  onChange={(event) => {
                    setChosen(event.target.value.trim());
                    setTexts({});
                  }}
                />
                <datalist id={`${attributes.id}-places`}>
                  {placesOf(detail, asked.kind === "retry").map((place) => (
                    <option key={place} value={place} />
                  ))}
                </datalist>
              </>
            )}
          </Field>
        ) : null}
        {isResult ? (
          <Field
            label={`Result of ${name}`}
            note="JSON"
            error={result !== "" && given && "error" in given ? given.error : undefined}
            help="The node is not done again; the log records that you gave its result."
          >
            {(attributes) => (
              <textarea
                {...attributes}
                className={AREA}
                value={result}
                placeholder='{"receipt": "ch_8841"}'
                onChange={(event) => setResult(event.target.value)}
              />
            )}
          </Field>
        ) : (
          Object.entries(inputs).map(([field, value]) => (
            <InputField
              key={`${chosen} ${field}`}
              name={field}
              value={value}
              text={texts[field]}
              error={changed.errors[field]}
              onChange={(text) => setTexts((before) => ({ ...before, [field]: text }))}
            />
          ))
        )}
        {node && !isResult && (node.status === "completed" || node.status === "failed") ? (
          <Field
            label={`Feedback to ${name}`}
            note={isEdited ? "not together with other inputs" : "text, for nodes that read it"}
          >
            {(attributes) => (
              <input
                {...attributes}
                className={INPUT}
                disabled={isEdited}
                value={feedback}
                onChange={(event) => setFeedback(event.target.value)}
              />
            )}
          </Field>
        ) : null}
        <Reason value={reason} onChange={setReason} />
        {left.children ? (
          <div className="flex flex-wrap items-center gap-3">
            <span>{left.children === 1 ? "The child run" : `The ${left.children} child runs`} begun since</span>
            <Segments
              label="Child runs"
              value={children}
              onChange={setChildren}
              choices={[
                { value: "cancel", text: "Cancel" },
                { value: "keep", text: "Let continue" },
              ]}
            />
          </div>
        ) : null}
        {chosen === "" || isWrong ? null : <PlanPart plan={plan} after={detail.at} />}
        {left.text ? (
          <p className="flex items-start gap-2 text-meta text-text-2">
            <TriangleAlert size={14} aria-hidden className="mt-0.5 flex-none" />
            Left on branch {detail.branch}: {left.text}.
          </p>
        ) : null}
      </div>
    </Dialog>
  );
}

function titleOf(kind: "jump" | "retry" | "result", chosen: string, name: string): string {
  if (kind === "result") return `Give the result of ${name}`;
  if (kind === "retry") return chosen ? `Do ${name} again` : "Do a node again";
  if (chosen === "start") return "Go back to the start";
  if (/^\d+$/.test(chosen)) return `Go back to event ${chosen}`;
  return chosen ? `Go back to ${name}` : "Go back";
}

function Explanation({
  detail,
  kind,
  chosen,
  cutoff,
}: {
  detail: Detail;
  kind: "jump" | "retry" | "result";
  chosen: string;
  cutoff: number | null;
}) {
  if (!chosen)
    return <p>Choose where the run continues from. What follows stays readable on branch {detail.branch}.</p>;
  const stays =
    cutoff !== null && cutoff < detail.at
      ? ` ${cutoff + 1 === detail.at ? `Event ${detail.at} stays` : `Events ${cutoff + 1} to ${detail.at} stay`} readable on branch ${detail.branch}.`
      : "";
  const name = plainName(chosen);
  const where =
    kind === "result"
      ? `A new branch continues as if ${name} had returned this.`
      : chosen === "start"
        ? "A new branch begins at the start of the run."
        : /^\d+$/.test(chosen)
          ? `A new branch begins after event ${chosen}.`
          : `A new branch begins before ${name}.`;
  return (
    <p>
      {where}
      {stays}
    </p>
  );
}

function InputField({
  name,
  value,
  text,
  error,
  onChange,
}: {
  name: string;
  value: unknown;
  text: string | undefined;
  error: string | undefined;
  onChange: (text: string) => void;
}) {
  const kind = kindOf(value);
  const before = textOf(value);
  const shown = text ?? before;
  const isChanged = text !== undefined && text !== before;
  const note = isChanged ? `${kind}, was ${oneLine(value, 40).text}` : kind === "null" ? "JSON, was null" : kind;
  if (before.length > 200_000)
    return (
      <p className="text-text-2">
        <code>{name}</code> is too large to edit here.
      </p>
    );
  return (
    <Field label={<code>{name}</code>} note={note} error={error}>
      {(attributes) =>
        kind === "boolean" ? (
          <select {...attributes} className={INPUT} value={shown} onChange={(event) => onChange(event.target.value)}>
            <option value="true">true</option>
            <option value="false">false</option>
          </select>
        ) : kind === "JSON" || before.includes("\n") || before.length > 80 ? (
          <textarea
            {...attributes}
            className={AREA}
            rows={Math.min(10, shown.split("\n").length + 1)}
            value={shown}
            onChange={(event) => onChange(event.target.value)}
          />
        ) : (
          <input
            {...attributes}
            className={INPUT}
            inputMode={kind === "number" ? "decimal" : "text"}
            value={shown}
            onChange={(event) => onChange(event.target.value)}
          />
        )
      }
    </Field>
  );
}

function fieldsOf(inputs: unknown): Record<string, unknown> {
  if (typeof inputs !== "object" || inputs === null || Array.isArray(inputs) || "$" in inputs) return {};
  return inputs as Record<string, unknown>;
}

function placesOf(detail: Detail, onlyNodes: boolean): string[] {
  const nodes = detail.nodes.map((node) => node.node);
  const done = new Set(nodes);
  if (onlyNodes) return nodes.slice(0, 500);
  return ["start", ...done, ...detail.questions.map((question) => question.id)].slice(0, 500);
}

/** What the current branch has after the cutoff: it is left there. */
function useLeft(detail: Detail, cutoff: number | null): { text: string; children: number } {
  const { run } = detail;
  const { data } = useQuery({
    queryKey: [...keys.run(run), "left", cutoff, detail.at],
    queryFn: ({ signal }) =>
      answer(
        api.GET("/api/v1/runs/{run}/events", {
          params: { path: { run }, query: { after: cutoff ?? 0, limit: 1000 } },
          signal,
        }),
      ),
    enabled: cutoff !== null,
  });
  if (cutoff === null || !data) return { text: "", children: 0 };
  const nodes = new Set<string>();
  const answers: string[] = [];
  const begun = new Set<string>();
  for (const { type, ...event } of data.events) {
    const fields = event.fields as Record<string, unknown>;
    if (type === "NodeCompleted") nodes.add(String(fields.node));
    if (type === "InteractionAnswered") answers.push(String(fields.by ?? ""));
    if (type === "ChildStarted") begun.add(String(fields.child));
  }
  const who = [...new Set(answers.filter(Boolean))].slice(0, 2).join(" and ");
  const more = data.next === null ? "" : " or more";
  const parts = [
    nodes.size ? `${counted(nodes.size, "completed node")}${more}` : "",
    answers.length === 1 ? `the answer${who ? ` of ${who}` : ""}` : answers.length ? `${answers.length} answers` : "",
    begun.size ? counted(begun.size, "child run") : "",
  ];
  return { text: parts.filter(Boolean).join(", "), children: begun.size };
}
