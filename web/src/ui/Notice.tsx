import type { LucideIcon } from "lucide-react";
import type { ReactNode } from "react";

/** A fact that stays true, in the page: a coloured edge, an icon, the sentence, and what can be done. */
export function Notice({
  hue,
  icon: Icon,
  children,
  action,
  className = "",
}: {
  hue: "run" | "wait" | "held" | "fail" | "done" | "undo" | "idle";
  icon: LucideIcon;
  children: ReactNode;
  action?: ReactNode;
  className?: string;
}) {
  const hues = {
    run: "hue-run",
    wait: "hue-wait",
    held: "hue-held",
    fail: "hue-fail",
    done: "hue-done",
    undo: "hue-undo",
    idle: "hue-idle",
  };
  return (
    <div
      className={`flex items-center gap-2 rounded-control border border-line border-l-3 border-l-hue-bar bg-surface px-3 py-2 max-md:flex-wrap ${hues[hue]} ${className}`}
    >
      <Icon size={16} aria-hidden className="flex-none text-hue" />
      <div className="min-w-0 flex-1">{children}</div>
      {action ? <div className="flex flex-none gap-2 max-md:w-full max-md:*:flex-1">{action}</div> : null}
    </div>
  );
}
