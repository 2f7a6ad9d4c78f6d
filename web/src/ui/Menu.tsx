import { Check } from "lucide-react";
import { DropdownMenu } from "radix-ui";
import type { ReactNode } from "react";

/** A menu that opens below `trigger`, a button. It does not block the page, and stays open while the page changes. */
export function Menu({
  trigger,
  children,
  align = "start",
}: {
  trigger: ReactNode;
  children: ReactNode;
  align?: "start" | "end";
}) {
  return (
    <DropdownMenu.Root modal={false}>
      <DropdownMenu.Trigger asChild>{trigger}</DropdownMenu.Trigger>
      <DropdownMenu.Portal>
        <DropdownMenu.Content
          align={align}
          sideOffset={4}
          collisionPadding={8}
          className="z-50 max-h-(--radix-dropdown-menu-content-available-height) min-w-44 animate-appear overflow-y-auto rounded-panel border border-line-strong bg-surface p-1 shadow-float"
        >
          {children}
        </DropdownMenu.Content>
      </DropdownMenu.Portal>
    </DropdownMenu.Root>
  );
}

const ITEM =
  "flex min-h-8 max-md:min-h-11 cursor-default items-center gap-2 rounded-control px-2 py-1 outline-none select-none data-[disabled]:text-text-3 data-[highlighted]:bg-hover";

export function MenuItem({
  children,
  onSelect,
  danger,
  disabled,
  note,
}: {
  children: ReactNode;
  onSelect: () => void;
  danger?: boolean;
  disabled?: boolean;
  /** Said at the right: a count, a key, or why it is disabled. */
  note?: ReactNode;
}) {
  return (
    <DropdownMenu.Item
      disabled={disabled ?? false}
      onSelect={onSelect}
      className={`${ITEM} ${danger && !disabled ? "text-fail" : ""}`}
    >
      {children}
      {note ? <span className="ml-auto pl-4 text-meta text-text-3">{note}</span> : null}
    </DropdownMenu.Item>
  );
}

/** One of several that may be ticked at once: the menu stays open. */
export function MenuTick({
  checked,
  onChange,
  children,
  note,
}: {
  checked: boolean;
  onChange: (checked: boolean) => void;
  children: ReactNode;
  note?: ReactNode;
}) {
  return (
    <DropdownMenu.CheckboxItem
      checked={checked}
      onCheckedChange={onChange}
      onSelect={(event) => event.preventDefault()}
      className={ITEM}
    >
      <span
        aria-hidden
        className={`grid size-4 flex-none place-items-center rounded-[3px] border ${checked ? "border-ink bg-ink text-on-ink" : "border-line-strong"}`}
      >
        {checked ? <Check size={12} strokeWidth={3} /> : null}
      </span>
      {children}
      {note ? <span className="ml-auto pl-4 text-meta text-text-3">{note}</span> : null}
    </DropdownMenu.CheckboxItem>
  );
}

/** One of several of which one is chosen. */
export function MenuChoice<T extends string>({
  value,
  onChange,
  choices,
}: {
  value: T;
  onChange: (value: T) => void;
  choices: { value: T; text: ReactNode; note?: ReactNode }[];
}) {
  return (
    <DropdownMenu.RadioGroup value={value} onValueChange={(chosen) => onChange(chosen as T)}>
      {choices.map((choice) => (
        <DropdownMenu.RadioItem key={choice.value} value={choice.value} className={ITEM}>
          <span aria-hidden className="w-4 flex-none">
            {choice.value === value ? <Check size={16} /> : null}
          </span>
          {choice.text}
          {choice.note ? <span className="ml-auto pl-4 text-meta text-text-3">{choice.note}</span> : null}
        </DropdownMenu.RadioItem>
      ))}
    </DropdownMenu.RadioGroup>
  );
}

export function MenuHeading({ children }: { children: ReactNode }) {
  return <DropdownMenu.Label className="px-2 pt-2 pb-1 text-meta text-text-3">{children}</DropdownMenu.Label>;
}

export function MenuLine() {
  return <DropdownMenu.Separator className="my-1 h-px bg-line" />;
}
