import { ChevronDown, CircleAlert, X } from "lucide-react";
import { type KeyboardEvent, type ReactNode, useId } from "react";
import { stringify } from "@/api/json";
import { blank, type Empty, type Entry, emptiesOf, isEmpty, noteOf, type Spec } from "@/model/schema-form";
import { oneLine } from "@/model/values";
import { AREA, INPUT } from "./Field";
import { Menu, MenuChoice } from "./Menu";

interface Shared {
  /** What is wrong, by path; only fields in `left` show it. */
  errors: Map<string, string>;
  left: ReadonlySet<string>;
  onLeave: (path: string) => void;
}

interface Props extends Shared {
  spec: Spec;
  entry: Entry;
  onChange: (entry: Entry) => void;
}

/** The fields of a form. An error is said under its field once the field was left. */
export function SchemaForm({ spec, entry, onChange, ...shared }: Props) {
  if (spec.kind !== "object") return <OneField spec={spec} entry={entry} onChange={onChange} {...shared} />;
  return <Fields spec={spec} entry={entry} onChange={onChange} {...shared} />;
}

function Fields({ spec, entry, onChange, ...shared }: Props) {
  return (
    <div className="grid grid-cols-2 gap-x-4 gap-y-3 max-md:grid-cols-1">
      {spec.fields.map((field) => (
        <OneField
          key={field.name}
          spec={field}
          entry={entry.fields?.[field.name] ?? blank(field)}
          onChange={(changed) =>
            onChange({ ...entry, empty: "text", fields: { ...entry.fields, [field.name]: changed } })
          }
          {...shared}
        />
      ))}
    </div>
  );
}

const isWide = (spec: Spec): boolean =>
  spec.kind === "object" || spec.kind === "json" || (spec.kind === "text" && (spec.limits.maxLength ?? 0) > 200);

function OneField(props: Props) {
  const { spec, entry, onChange, errors, left, onLeave } = props;
  const id = useId();
  const error = left.has(spec.path) ? errors.get(spec.path) : undefined;
  if (spec.kind === "object") return <ObjectField {...props} />;
  const help = helpOf(spec, entry);
  const attributes = {
    id,
    "aria-invalid": error !== undefined,
    "aria-describedby": error || help ? `${id}-below` : undefined,
    onBlur: () => onLeave(spec.path),
  };
  return (
    <div className={`flex min-w-0 flex-col gap-1 ${isWide(spec) ? "col-span-full" : "last:odd:col-span-full"}`}>
      <div className="flex items-baseline gap-3">
        <label htmlFor={id} id={`${id}-label`} className="min-w-0 font-medium break-words">
          {spec.label}
          {spec.isRequired ? null : <span className="font-normal text-text-2"> optional</span>}
        </label>
        <span className="ml-auto flex items-baseline gap-1 text-right text-meta text-text-3">
          {noteOf(spec)}
          <EmptyMenu spec={spec} entry={entry} onChange={onChange} labelledBy={`${id}-label`} />
        </span>
      </div>
      <Control spec={spec} entry={entry} onChange={onChange} attributes={attributes} />
      {error ? (
        <p id={`${id}-below`} className="flex items-start gap-1 text-meta text-fail">
          <CircleAlert size={14} aria-hidden className="mt-px flex-none" /> {error}
        </p>
      ) : help ? (
        <p id={`${id}-below`} className="text-meta text-text-2">
          {help}
        </p>
      ) : null}
    </div>
  );
}

interface Attributes {
  id: string;
  "aria-invalid": boolean;
  "aria-describedby": string | undefined;
  onBlur: () => void;
}

interface ControlProps {
  spec: Spec;
  entry: Entry;
  onChange: (entry: Entry) => void;
  attributes: Attributes;
}

function Control({ spec, entry, onChange, attributes }: ControlProps): ReactNode {
  const typed = {
    ...attributes,
    value: entry.text ?? "",
    placeholder: placeholderOf(spec, entry),
    spellCheck: false,
    autoComplete: "off",
    onChange: (event: { target: { value: string } }) => onChange({ ...entry, text: event.target.value }),
  };
  switch (spec.kind) {
    case "boolean":
    case "choice":
      return <Choice spec={spec} entry={entry} onChange={onChange} attributes={attributes} />;
    case "list":
      return <ListControl spec={spec} entry={entry} onChange={onChange} attributes={attributes} />;
    case "json":
      return <textarea {...typed} rows={4} className={AREA} />;
    case "date":
      return <input {...typed} type="date" className={INPUT} />;
    case "text":
      return (
        <textarea
          {...typed}
          rows={1}
          className={`${INPUT} field-sizing-content h-auto min-h-(--control) resize-none py-[calc((var(--control)-22px)/2)]`}
        />
      );
    default:
      return <input {...typed} inputMode={spec.kind === "integer" ? "numeric" : undefined} className={INPUT} />;
  }
}

/** Yes or no, or one of some values. What is not needed can be left out. */
function Choice({ spec, entry, onChange, attributes }: ControlProps) {
  const choices =
    spec.kind === "boolean"
      ? [
          { place: 1, text: "Yes" },
          { place: 0, text: "No" },
        ]
      : spec.choices.map((value, place) => ({ place, text: typeof value === "string" ? value : stringify(value) }));
  const empties = emptiesOf(spec).filter((empty) => empty === "absent" || empty === "null");
  if (choices.length + empties.length > 6 || choices.some((choice) => choice.text.length > 24))
    return (
      <select
        {...attributes}
        value={entry.choice ?? entry.empty}
        onChange={({ target: { value } }) =>
          onChange(/^\d+$/.test(value) ? { ...entry, choice: Number(value) } : { empty: value as Empty, choice: null })
        }
        className={INPUT}
      >
        {empties.length ? null : <option value="unset">Choose one</option>}
        {empties.map((empty) => (
          <option key={empty} value={empty}>
            {emptyText(spec, empty)}
          </option>
        ))}
        {choices.map((choice) => (
          <option key={choice.place} value={choice.place}>
            {choice.text}
          </option>
        ))}
      </select>
    );
  const { onBlur, "aria-invalid": isInvalid, ...named } = attributes;
  const button =
    "min-h-[calc(var(--control)-4px)] flex-1 rounded-[3px] px-3 whitespace-nowrap text-text-2 hover:text-text aria-pressed:bg-selected aria-pressed:font-semibold aria-pressed:text-text";
  return (
    <fieldset
      {...named}
      aria-labelledby={`${attributes.id}-label`}
      onBlur={(event) => event.currentTarget.contains(event.relatedTarget) || onBlur()}
      className={`flex w-fit min-w-0 flex-wrap rounded-control border p-px max-md:w-full ${isInvalid ? "border-fail-bar" : "border-line-strong"}`}
    >
      {choices.map((choice) => (
        <button
          key={choice.place}
          type="button"
          aria-pressed={entry.choice === choice.place}
          onClick={() => onChange({ ...entry, choice: choice.place })}
          className={button}
        >
          {choice.text}
        </button>
      ))}
      {empties.map((empty) => (
        <button
          key={empty}
          type="button"
          aria-pressed={isEmpty(spec, entry) && entry.empty === empty}
          onClick={() => onChange({ empty, choice: null })}
          className={button}
        >
          {emptyText(spec, empty)}
        </button>
      ))}
    </fieldset>
  );
}

function ListControl({ spec, entry, onChange, attributes }: ControlProps) {
  const items = entry.items ?? [];
  const add = (texts: string[]) => onChange({ ...entry, items: [...items, ...texts], text: "" });
  const onKeyDown = (event: KeyboardEvent<HTMLInputElement>) => {
    if (event.key === "Enter" && !event.ctrlKey && !event.metaKey && entry.text) {
      event.preventDefault();
      add([entry.text]);
    } else if (event.key === "Enter" && !event.ctrlKey && !event.metaKey) event.preventDefault();
    else if (event.key === "Backspace" && !entry.text && items.length) {
      event.preventDefault();
      onChange({ ...entry, items: items.slice(0, -1) });
    }
  };
  return (
    <div
      className={`flex min-h-(--control) flex-wrap items-center gap-1 rounded-control border bg-surface px-1.5 py-1 focus-within:outline-2 focus-within:outline-offset-2 focus-within:outline-focus ${attributes["aria-invalid"] ? "border-fail-bar ring-1 ring-fail-bar" : "border-line-strong"}`}
    >
      {items.map((item, place) => (
        <span
          // biome-ignore lint/suspicious/noArrayIndexKey: items may be alike
          key={place}
          className="inline-flex max-w-full items-center gap-0.5 rounded-control border border-line bg-canvas pl-1.5 text-meta"
        >
          <span className="truncate" title={item}>
            {item || "empty text"}
          </span>
          <button
            type="button"
            aria-label={`Remove ${item}`}
            onClick={() => onChange({ ...entry, items: items.filter((_, other) => other !== place) })}
            className="p-1 text-text-2 hover:text-text max-md:p-2"
          >
            <X size={12} aria-hidden />
          </button>
        </span>
      ))}
      <input
        {...attributes}
        value={entry.text ?? ""}
        placeholder={items.length ? "Add one" : placeholderOf(spec, entry) || "Add one"}
        spellCheck={false}
        autoComplete="off"
        onKeyDown={onKeyDown}
        onChange={(event) => onChange({ ...entry, text: event.target.value })}
        onPaste={(event) => {
          const lines = event.clipboardData.getData("text/plain").split(/\r?\n/);
          if (lines.length < 2) return;
          event.preventDefault();
          add(lines.filter(Boolean));
        }}
        className="min-w-24 flex-1 bg-transparent px-1 outline-none"
      />
    </div>
  );
}

function ObjectField(props: Props) {
  const { spec, entry, onChange } = props;
  const empties = emptiesOf(spec).filter((empty) => empty !== "unset");
  const isGiven = !isEmpty(spec, entry);
  return (
    <fieldset className="col-span-full min-w-0 rounded-panel border border-line px-3 pt-1 pb-3">
      <legend className="px-1.5 font-semibold">
        {spec.label}
        {spec.isRequired ? null : <span className="font-normal text-text-2"> optional</span>}
      </legend>
      {empties.length ? (
        <p className="mb-2 flex flex-wrap gap-2 text-text-2">
          {isGiven ? null : `${emptyText(spec, entry.empty)}.`}
          {isGiven ? (
            empties.map((empty) => (
              <button key={empty} type="button" className="link" onClick={() => onChange({ ...entry, empty })}>
                {emptyText(spec, empty)}
              </button>
            ))
          ) : (
            <button
              type="button"
              className="link"
              onClick={() => onChange({ ...blank(spec), ...entry, empty: "text" })}
            >
              Fill it in
            </button>
          )}
        </p>
      ) : null}
      {isGiven ? <Fields {...props} /> : null}
    </fieldset>
  );
}

/** What an empty field sends, if there is a choice. */
function EmptyMenu({
  spec,
  entry,
  onChange,
  labelledBy,
}: {
  spec: Spec;
  entry: Entry;
  onChange: (entry: Entry) => void;
  labelledBy: string;
}) {
  const empties = emptiesOf(spec);
  if (empties.length < 2 || spec.kind === "boolean" || spec.kind === "choice") return null;
  return (
    <Menu
      align="end"
      trigger={
        <button
          type="button"
          aria-label="What it is when it is empty"
          aria-describedby={labelledBy}
          className="-my-1 self-center rounded-control p-1 text-text-2 hover:bg-hover hover:text-text"
        >
          <ChevronDown size={12} aria-hidden />
        </button>
      }
    >
      <MenuChoice
        value={entry.empty}
        onChange={(empty) => onChange({ ...entry, empty, text: "", items: [] })}
        choices={empties.map((empty) => ({ value: empty, text: emptyText(spec, empty) }))}
      />
    </Menu>
  );
}

function emptyText(spec: Spec, empty: Empty): string {
  switch (empty) {
    case "absent":
      return "Left out";
    case "null":
      return "Nothing (null)";
    case "text":
      return spec.kind === "list" ? "Empty list" : "Empty text";
    default:
      return "To be filled in";
  }
}

/** What an empty control says: that which is sent if it stays so. */
function placeholderOf(spec: Spec, entry: Entry): string {
  switch (entry.empty) {
    case "absent":
      return spec.preset === undefined ? "Left out" : `Left out: ${oneLine(spec.preset, 40).text}`;
    case "null":
      return "Left empty: nothing (null)";
    case "text":
      return spec.kind === "list" ? "Empty list" : "Left empty: empty text";
    default:
      return "";
  }
}

function helpOf(spec: Spec, entry: Entry): string {
  if (spec.kind === "list" && entry.text) return "Enter adds, Backspace removes. Paste lines to add many.";
  if ((spec.kind === "boolean" || spec.kind === "choice") && isEmpty(spec, entry) && entry.empty === "absent")
    return spec.preset === undefined ? "" : `Left out: ${oneLine(spec.preset, 40).text}.`;
  return "";
}
