import { Slot } from "radix-ui";
import { type ButtonHTMLAttributes, useEffect, useState } from "react";

type Look = "primary" | "plain" | "soft" | "flat" | "danger";

const LOOKS: Record<Look, string> = {
  primary: "bg-ink border-ink text-on-ink enabled:hover:opacity-90",
  plain: "bg-surface border-line-strong enabled:hover:bg-hover",
  soft: "bg-surface border-line enabled:hover:bg-hover",
  flat: "border-transparent enabled:hover:bg-hover",
  danger: "bg-surface border-line-strong text-fail enabled:hover:bg-hover",
};

interface Props extends ButtonHTMLAttributes<HTMLButtonElement> {
  look?: Look;
  small?: boolean;
  /** Only an icon: `aria-label` names it. */
  square?: boolean;
  /** What it did is under way: it cannot be pressed again, and says `busyText` after 400 ms. */
  busy?: boolean;
  busyText?: string;
  asChild?: boolean;
}

export function Button({
  look = "plain",
  small,
  square,
  busy,
  busyText,
  asChild,
  className = "",
  children,
  ...props
}: Props) {
  const isLate = useLate(busy ?? false);
  const Part = asChild ? Slot.Root : "button";
  const size = small
    ? `h-7 max-md:h-10 max-md:px-3 ${square ? "w-7 max-md:w-10" : "px-2"}`
    : `h-(--control) ${square ? "w-(--control)" : "px-3"}`;
  return (
    <Part
      type={asChild ? undefined : "button"}
      {...props}
      disabled={asChild ? undefined : props.disabled || busy}
      aria-busy={busy || undefined}
      className={`inline-flex flex-none items-center justify-center gap-1.5 rounded-control border font-medium whitespace-nowrap no-underline disabled:cursor-default disabled:border-line ${look === "primary" ? "disabled:opacity-60" : "disabled:text-text-3"} ${LOOKS[look]} ${size} ${className}`}
    >
      {isLate && busyText ? busyText : children}
    </Part>
  );
}

/** True when something has been going on for 400 ms. */
export function useLate(isOn: boolean, ms = 400): boolean {
  const [isLate, setLate] = useState(false);
  useEffect(() => {
    if (!isOn) {
      setLate(false);
      return;
    }
    const timer = setTimeout(() => setLate(true), ms);
    return () => clearTimeout(timer);
  }, [isOn, ms]);
  return isOn && isLate;
}
