import { type ReactNode, useId } from "react";

export const INPUT =
  "block h-(--control) w-full rounded-control border border-line-strong bg-surface px-2.5 disabled:text-text-3 aria-invalid:border-fail-bar aria-invalid:ring-1 aria-invalid:ring-fail-bar";
export const AREA = `${INPUT} h-auto min-h-16 py-1.5 font-mono text-code`;

/** A labelled control. `note` is at the right of the label: its type, or what becomes of it. `children` gets its attributes. */
export function Field({
  label,
  note,
  error,
  help,
  children,
}: {
  label: ReactNode;
  note?: ReactNode;
  error?: string | undefined;
  help?: ReactNode;
  children: (attributes: { id: string; "aria-invalid": boolean; "aria-describedby": string | undefined }) => ReactNode;
}) {
  const id = useId();
  const below = error ?? help;
  return (
    <div className="flex flex-col gap-1">
      <div className="flex items-baseline gap-3">
        <label htmlFor={id} className="min-w-0 break-words">
          {label}
        </label>
        {note ? <span className="ml-auto text-right text-meta text-text-3">{note}</span> : null}
      </div>
      {children({ id, "aria-invalid": error !== undefined, "aria-describedby": below ? `${id}-below` : undefined })}
      {below ? (
        <p id={`${id}-below`} className={`text-meta ${error ? "text-fail" : "text-text-2"}`}>
          {below}
        </p>
      ) : null}
    </div>
  );
}

/** A tick with its sentence. */
export function Tick({
  checked,
  onChange,
  children,
  disabled,
}: {
  checked: boolean;
  onChange: (checked: boolean) => void;
  children: ReactNode;
  disabled?: boolean;
}) {
  return (
    // biome-ignore lint/a11y/noLabelWithoutControl: the control is in TickBox
    <label className="flex items-start gap-2">
      <TickBox checked={checked} onChange={onChange} disabled={disabled} className="mt-0.5" />
      <span>{children}</span>
    </label>
  );
}

/** The box of a tick alone; `label` names it. */
export function TickBox({
  checked,
  mixed,
  onChange,
  label,
  disabled,
  className = "",
}: {
  checked: boolean;
  mixed?: boolean;
  onChange: (checked: boolean) => void;
  label?: string;
  disabled?: boolean | undefined;
  className?: string;
}) {
  return (
    <input
      type="checkbox"
      aria-label={label}
      checked={checked}
      disabled={disabled}
      ref={(box) => {
        if (box) box.indeterminate = mixed ?? false;
      }}
      onChange={(event) => onChange(event.target.checked)}
      className={`tick ${className}`}
    />
  );
}
