import { PageHeading } from "@/ui/PageHeading";

export default function WorkflowPage() {
  return <PageHeading title="Workflow" />;
}
