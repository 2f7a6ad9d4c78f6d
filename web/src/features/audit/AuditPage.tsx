import { PageHeading } from "@/ui/PageHeading";

export default function AuditPage() {
  return <PageHeading title="Audit" />;
}
