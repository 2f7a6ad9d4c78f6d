import { CircleAlert } from "lucide-react";
import { Problem } from "@/api/client";
import { DryRun } from "@/ui/DryRun";
import { Notice } from "@/ui/Notice";
import type { usePlan } from "./usePlan";

/** The dry run in a dialog; or why the engine refuses what is in the form. */
export function PlanPart({ plan, after }: { plan: ReturnType<typeof usePlan>; after: number }) {
  const { data, error } = plan;
  if (error) {
    return (
      <Notice hue="fail" icon={CircleAlert}>
        {error instanceof Problem ? error.detail : String(error)}
      </Notice>
    );
  }
  if (!data) return <p className="min-h-17 text-text-2">Asking what it would append…</p>;
  return <DryRun events={data.would_append} effects={data.effects} after={after} />;
}
