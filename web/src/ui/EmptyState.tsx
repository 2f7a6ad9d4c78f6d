import type { LucideIcon } from "lucide-react";
import type { ReactNode } from "react";

/** What is said where a list would be: what there is not, why, and what one can do. */
export function EmptyState({
  icon: Icon,
  title,
  children,
  action,
}: {
  icon: LucideIcon;
  title: string;
  children?: ReactNode;
  action?: ReactNode;
}) {
  return (
    <div className="flex flex-col items-start gap-1 px-4 py-6">
      <Icon size={16} aria-hidden className="mb-1 text-text-2" />
      <p className="font-semibold">{title}</p>
      {children ? <div className="text-text-2">{children}</div> : null}
      {action ? <div className="mt-2 flex flex-wrap gap-2">{action}</div> : null}
    </div>
  );
}
