import { Braces, List } from "lucide-react";
import { type KeyboardEvent, useMemo, useState } from "react";
import { type Json, parse, stringify } from "@/api/json";
import { blank, type Entry, errorsOf, filled, formValue, isEmpty, type Spec } from "@/model/schema-form";
import { useDraft } from "./drafts";
import { AREA } from "./Field";
import { SchemaForm } from "./SchemaForm";
import { Segments } from "./Tabs";

interface Draft {
  entry: Entry;
  /** The text, if the form is shown as JSON. */
  json: string | null;
}

/** The state of a form that is sent as one value. `key` names its draft, which survives a reload and a new sign-in. */
export interface FormState {
  spec: Spec;
  draft: Draft;
  errors: Map<string, string>;
  left: ReadonlySet<string>;
  isTouched: boolean;
  /** What is sent; undefined if something is wrong. */
  value: Json | undefined;
  set: (draft: Draft) => void;
  fill: (value: Json) => void;
  leave: (path: string) => void;
  /** Show all errors; whether there is none. */
  check: () => boolean;
  clear: () => void;
}

export function useForm(key: string, spec: Spec): FormState {
  const [kept, setKept] = useDraft<Draft>(key);
  const [left, setLeft] = useState<ReadonlySet<string>>(new Set());
  const [isChecked, setChecked] = useState(false);
  const draft = kept ?? { entry: blank(spec), json: null };
  const errors = useMemo(
    () => (draft.json === null ? errorsOf(spec, draft.entry) : jsonErrors(draft.json)),
    [spec, draft],
  );
  const isRight = errors.size === 0;
  const value = useMemo(() => {
    if (!isRight) return undefined;
    return draft.json === null ? formValue(spec, draft.entry) : parse(draft.json, true);
  }, [isRight, spec, draft]);
  return {
    spec,
    draft,
    errors,
    left: isChecked ? new Set(errors.keys()) : left,
    isTouched: kept !== undefined,
    value,
    set: (changed) => setKept(changed),
    fill: (given) => {
      const entry = filled(spec, given);
      setKept(entry ? { entry, json: null } : { entry: blank(spec), json: stringify(given, 2) });
    },
    leave: (path) => setLeft((before) => (before.has(path) ? before : new Set([...before, path]))),
    check: () => {
      setChecked(true);
      return isRight;
    },
    clear: () => {
      setKept(undefined);
      setChecked(false);
      setLeft(new Set());
    },
  };
}

function jsonErrors(text: string): Map<string, string> {
  try {
    parse(text, true);
    return new Map();
  } catch (error) {
    return new Map([["", error instanceof Error ? error.message : "This is not JSON."]]);
  }
}

/** The form, or the same value as JSON. */
export function FormArea({ form }: { form: FormState }) {
  const { draft, errors, left } = form;
  if (draft.json !== null) {
    const error = left.has("") ? errors.get("") : undefined;
    return (
      <div className="flex flex-col gap-1">
        <textarea
          aria-label={`${form.spec.label} as JSON`}
          aria-invalid={error !== undefined}
          value={draft.json}
          rows={8}
          spellCheck={false}
          onBlur={() => form.leave("")}
          onChange={(event) => form.set({ ...draft, json: event.target.value })}
          className={`${AREA} field-sizing-content max-h-120`}
        />
        {error ? <p className="text-meta text-fail">{error}</p> : null}
      </div>
    );
  }
  return (
    <SchemaForm
      spec={form.spec}
      entry={draft.entry}
      onChange={(entry) => form.set({ ...draft, entry })}
      errors={errors}
      left={left}
      onLeave={form.leave}
    />
  );
}

/** Switch between form and JSON. JSON that the form has no fields for stays JSON. */
export function FormSwitch({ form }: { form: FormState }) {
  const { spec, draft } = form;
  if (spec.kind === "json") return null;
  const toForm = () => {
    if (draft.json === null) return;
    const text = draft.json;
    const entry = form.errors.size || !text.trim() ? null : filled(spec, parse(text, true));
    if (entry) form.set({ entry, json: null });
    else if (!text.trim()) form.set({ entry: blank(spec), json: null });
  };
  const toJson = () => {
    if (draft.json === null) form.set({ ...draft, json: stringify(partOf(spec, draft.entry) ?? null, 2) });
  };
  return (
    <Segments
      label="Show as"
      value={draft.json === null ? "form" : "json"}
      onChange={(choice) => (choice === "form" ? toForm() : toJson())}
      choices={[
        { value: "form", text: <Choice icon={List} name="Form" /> },
        { value: "json", text: <Choice icon={Braces} name="JSON" /> },
      ]}
    />
  );
}

function Choice({ icon: Icon, name }: { icon: typeof List; name: string }) {
  return (
    <span className="flex items-center gap-1">
      <Icon size={14} aria-hidden /> {name}
    </span>
  );
}

/** The value as far as it can be read from a form that is not right yet. */
function partOf(spec: Spec, entry: Entry): Json | undefined {
  if (spec.kind !== "object" || isEmpty(spec, entry))
    return errorsOf(spec, entry).size ? undefined : formValue(spec, entry);
  const found: { [key: string]: Json } = {};
  for (const field of spec.fields) {
    const value = partOf(field, entry.fields?.[field.name] ?? blank(field));
    if (value !== undefined) found[field.name] = value;
  }
  return found;
}

/** Ctrl+Enter sends a form, Cmd+Enter too. */
export function onSendKey(send: () => void): (event: KeyboardEvent) => void {
  return (event) => {
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    send();
  };
}
