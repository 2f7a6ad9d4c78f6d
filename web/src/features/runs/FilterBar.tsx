import { ChevronDown, Columns3, Plus, Search, X } from "lucide-react";
import { type ReactNode, useEffect, useRef, useState } from "react";
import { isCondition, OPERATORS, type Operator, problemWith } from "@/model/attributes";
import { exactMoment } from "@/model/durations";
import { Button } from "@/ui/Button";
import { Dialog } from "@/ui/Dialog";
import { Field, INPUT } from "@/ui/Field";
import { Menu, MenuChoice, MenuHeading, MenuItem, MenuLine, MenuTick } from "@/ui/Menu";
import { STATUSES } from "@/ui/StatusBadge";
import { useSettings } from "@/ui/settings";
import { COLUMN_NAMES } from "./columns";
import { ALL_STATUSES, type Filter, STARTED } from "./filter";
import { COLUMNS, useColumns, useViews } from "./views";

interface Props {
  filter: Filter;
  onChange: (changed: Partial<Filter>, replace?: boolean) => void;
  workflows: string[];
  /** The names of the search attributes of the runs shown. */
  attributes: string[];
}

/** The filter: text, status, workflow, and a chip for each further condition. */
export function FilterBar({ filter, onChange, workflows, attributes }: Props) {
  const [asksFor, setAsksFor] = useState<"tag" | "queue" | "attribute" | null>(null);
  const close = () => setAsksFor(null);
  return (
    <div className="mt-3 flex items-start gap-2 max-md:-mx-4 max-md:overflow-x-auto max-md:px-4 max-md:[scrollbar-width:none]">
      <div className="flex min-w-0 items-center gap-2 max-md:min-w-max md:flex-wrap">
        <TextFilter text={filter.text} onChange={(text) => onChange({ text }, true)} />
        <StatusFilter filter={filter} onChange={onChange} />
        <WorkflowFilter filter={filter} onChange={onChange} workflows={workflows} />
        {filter.started ? (
          <Chip name={`started: ${STARTED[filter.started]?.text}`} onRemove={() => onChange({ started: "" })} />
        ) : null}
        {filter.until ? (
          <Chip name="created before" onRemove={() => onChange({ until: "" })}>
            created before <Until time={filter.until} />
          </Chip>
        ) : null}
        {filter.asks ? <Chip name="needs a person" onRemove={() => onChange({ asks: false })} /> : null}
        {filter.tag.map((tag) => (
          <Chip
            key={tag}
            name={`tag: ${tag}`}
            onRemove={() => onChange({ tag: filter.tag.filter((each) => each !== tag) })}
          />
        ))}
        {filter.attribute.map((condition) => (
          <Chip
            key={condition}
            name={condition}
            onRemove={() => onChange({ attribute: filter.attribute.filter((each) => each !== condition) })}
          />
        ))}
        {filter.queue ? <Chip name={`queue: ${filter.queue}`} onRemove={() => onChange({ queue: "" })} /> : null}
        {filter.children ? null : <Chip name="children: hidden" onRemove={() => onChange({ children: true })} />}
        <Menu
          trigger={
            <Button look="flat">
              <Plus size={14} aria-hidden /> Filter
            </Button>
          }
        >
          <MenuHeading>Started</MenuHeading>
          <MenuChoice
            value={filter.started}
            onChange={(started) => onChange({ started })}
            choices={[
              { value: "", text: "at any time" },
              ...Object.entries(STARTED).map(([value, { text }]) => ({ value, text })),
            ]}
          />
          <MenuLine />
          <MenuTick checked={filter.asks} onChange={(asks) => onChange({ asks })}>
            Needs a person
          </MenuTick>
          <MenuTick checked={filter.children} onChange={(children) => onChange({ children })}>
            Show children
          </MenuTick>
          <MenuLine />
          <MenuItem onSelect={() => setAsksFor("attribute")}>Attribute…</MenuItem>
          <MenuItem onSelect={() => setAsksFor("tag")}>Tag…</MenuItem>
          <MenuItem onSelect={() => setAsksFor("queue")}>Queue…</MenuItem>
        </Menu>
      </div>
      <div className="ml-auto">
        <ColumnsMenu attributes={attributes} />
      </div>
      <TextDialog
        open={asksFor === "tag"}
        title="Runs with a tag"
        label="Tag"
        onClose={close}
        onChoose={(tag) => onChange({ tag: [...new Set([...filter.tag, tag])] })}
      />
      <TextDialog
        open={asksFor === "queue"}
        title="Runs of a queue"
        label="Queue"
        onClose={close}
        onChoose={(queue) => onChange({ queue })}
      />
      <AttributeDialog
        open={asksFor === "attribute"}
        names={attributes}
        onClose={close}
        onChoose={(condition) => onChange({ attribute: [...new Set([...filter.attribute, condition])] })}
      />
    </div>
  );
}

function Until({ time }: { time: string }) {
  const zone = useSettings((settings) => settings.zone);
  return <>{exactMoment(Date.parse(time), zone)}</>;
}

function Chip({ name, children = name, onRemove }: { name: string; children?: ReactNode; onRemove: () => void }) {
  return (
    <span className="inline-flex h-7 flex-none items-center gap-0.5 rounded-control border border-line bg-surface pl-2 whitespace-nowrap max-md:h-(--control)">
      {children}
      <button
        type="button"
        aria-label={`Remove the condition ${name}`}
        onClick={onRemove}
        className="h-full rounded-control px-1.5 text-text-3 hover:text-text"
      >
        <X size={14} aria-hidden />
      </button>
    </span>
  );
}

function TextFilter({ text, onChange }: { text: string; onChange: (text: string) => void }) {
  const [typed, setTyped] = useState(text);
  const sent = useRef(text);
  useEffect(() => {
    if (text === sent.current) return;
    sent.current = text; // the address changed otherwise
    setTyped(text);
  }, [text]);
  useEffect(() => {
    if (typed === sent.current) return;
    const timer = setTimeout(() => {
      sent.current = typed;
      onChange(typed);
    }, 250);
    return () => clearTimeout(timer);
  }, [typed, onChange]);
  return (
    <search className="relative w-85 flex-none max-lg:w-52 max-md:w-47.5">
      <Search size={14} aria-hidden className="absolute top-1/2 left-3 -translate-y-1/2 text-text-2" />
      <input
        type="search"
        aria-label="Filter by text"
        placeholder="Id, title, tag, reason"
        spellCheck={false}
        value={typed}
        onChange={(event) => setTyped(event.target.value)}
        className={`${INPUT} pl-8`}
      />
    </search>
  );
}

function StatusFilter({ filter, onChange }: Pick<Props, "filter" | "onChange">) {
  const chosen = filter.status.map((status) => STATUSES[status].word);
  return (
    <Menu
      trigger={
        <Button look={chosen.length ? "plain" : "soft"}>
          {chosen.length
            ? `Status: ${chosen.slice(0, 2).join(", ")}${chosen.length > 2 ? ` +${chosen.length - 2}` : ""}`
            : "Status"}
          <ChevronDown size={14} aria-hidden />
        </Button>
      }
    >
      {ALL_STATUSES.map((status) => {
        const { word, icon: Icon, hue } = STATUSES[status];
        return (
          <MenuTick
            key={status}
            checked={filter.status.includes(status)}
            onChange={(isOn) =>
              onChange({
                status: ALL_STATUSES.filter((each) => (each === status ? isOn : filter.status.includes(each))),
              })
            }
          >
            <Icon size={16} aria-hidden className={`${hue} text-hue`} /> {word}
          </MenuTick>
        );
      })}
      {chosen.length ? (
        <>
          <MenuLine />
          <MenuItem onSelect={() => onChange({ status: [] })}>Any status</MenuItem>
        </>
      ) : null}
    </Menu>
  );
}

function WorkflowFilter({ filter, onChange, workflows }: Omit<Props, "attributes">) {
  const names = filter.workflow && !workflows.includes(filter.workflow) ? [filter.workflow, ...workflows] : workflows;
  return (
    <Menu
      trigger={
        <Button look={filter.workflow ? "plain" : "soft"}>
          <span className="max-w-50 truncate">{filter.workflow ? `Workflow: ${filter.workflow}` : "Workflow"}</span>
          <ChevronDown size={14} aria-hidden />
        </Button>
      }
    >
      <MenuChoice
        value={filter.workflow}
        onChange={(workflow) => onChange({ workflow })}
        choices={[{ value: "", text: "Any workflow" }, ...names.map((name) => ({ value: name, text: name }))]}
      />
    </Menu>
  );
}

function ColumnsMenu({ attributes }: Pick<Props, "attributes">) {
  const { setColumns, attributes: chosen, setAttributes } = useViews();
  const columns = useColumns();
  const names = [...new Set([...chosen, ...attributes])].sort();
  return (
    <Menu
      align="end"
      trigger={
        <Button look="flat" className="max-md:hidden">
          <Columns3 size={14} aria-hidden /> Columns
        </Button>
      }
    >
      {COLUMNS.map((key) => (
        <MenuTick
          key={key}
          checked={columns.includes(key)}
          onChange={(isOn) =>
            key === "run" ? undefined : setColumns(isOn ? [...columns, key] : columns.filter((each) => each !== key))
          }
          note={key === "run" ? "always shown" : undefined}
        >
          {COLUMN_NAMES[key]}
        </MenuTick>
      ))}
      {names.length ? <MenuHeading>Search attributes</MenuHeading> : null}
      {names.map((name) => (
        <MenuTick
          key={name}
          checked={chosen.includes(name)}
          onChange={(isOn) => setAttributes(isOn ? [...chosen, name] : chosen.filter((each) => each !== name))}
        >
          {name}
        </MenuTick>
      ))}
    </Menu>
  );
}

interface DialogProps {
  open: boolean;
  onClose: () => void;
  onChoose: (text: string) => void;
}

/** Asks for a text to filter by. */
function TextDialog({ open, title, label, onClose, onChoose }: DialogProps & { title: string; label: string }) {
  const [text, setText] = useState("");
  const send = () => {
    if (!text.trim()) return;
    onChoose(text.trim());
    setText("");
    onClose();
  };
  return (
    <FilterDialog open={open} title={title} onClose={onClose} onSend={send} isReady={text.trim() !== ""}>
      <Field label={label} note="exactly as it was given">
        {(attributes) => (
          <input
            {...attributes}
            value={text}
            onChange={(event) => setText(event.target.value)}
            spellCheck={false}
            className={INPUT}
          />
        )}
      </Field>
    </FilterDialog>
  );
}

/** Asks for a condition on a search attribute. */
function AttributeDialog({ open, names, onClose, onChoose }: DialogProps & { names: string[] }) {
  const [name, setName] = useState("");
  const [operator, setOperator] = useState<Operator>("=");
  const [value, setValue] = useState("");
  const condition = `${name.trim()}${operator}${value.trim()}`;
  const problem = problemWith(value.trim());
  const isReady = isCondition(condition) && !problem;
  const send = () => {
    if (!isReady) return;
    onChoose(condition);
    setValue("");
    onClose();
  };
  return (
    <FilterDialog open={open} title="Runs with an attribute" onClose={onClose} onSend={send} isReady={isReady}>
      <div className="flex flex-col gap-3">
        <Field label="Attribute" note="its name">
          {(attributes) => (
            <input
              {...attributes}
              list="attribute-names"
              value={name}
              onChange={(event) => setName(event.target.value)}
              spellCheck={false}
              autoCapitalize="none"
              className={INPUT}
            />
          )}
        </Field>
        <datalist id="attribute-names">
          {names.map((each) => (
            <option key={each} value={each} />
          ))}
        </datalist>
        <Field label="Is">
          {(attributes) => (
            <select
              {...attributes}
              value={operator}
              onChange={(event) => setOperator(event.target.value as Operator)}
              className={INPUT}
            >
              {OPERATORS.map((each) => (
                <option key={each} value={each}>
                  {OPERATOR_NAMES[each]}
                </option>
              ))}
            </select>
          )}
        </Field>
        <Field
          label="Value"
          note="number, true, false, time or text"
          error={problem || undefined}
          help={'A number, true, false or a time in double quotes is text: "12".'}
        >
          {(attributes) => (
            <input
              {...attributes}
              value={value}
              onChange={(event) => setValue(event.target.value)}
              spellCheck={false}
              autoCapitalize="none"
              className={INPUT}
            />
          )}
        </Field>
      </div>
    </FilterDialog>
  );
}

const OPERATOR_NAMES: Record<Operator, string> = {
  "=": "equal to",
  "<": "less than",
  "<=": "at most",
  ">": "greater than",
  ">=": "at least",
};

function FilterDialog({
  open,
  title,
  onClose,
  onSend,
  isReady,
  children,
}: {
  open: boolean;
  title: string;
  onClose: () => void;
  onSend: () => void;
  isReady: boolean;
  children: ReactNode;
}) {
  return (
    <Dialog
      open={open}
      onClose={onClose}
      title={title}
      actions={
        <Button look="primary" onClick={onSend} disabled={!isReady}>
          Filter by it
        </Button>
      }
    >
      <form
        onSubmit={(event) => {
          event.preventDefault();
          onSend();
        }}
      >
        {children}
        <button type="submit" hidden />
      </form>
    </Dialog>
  );
}
