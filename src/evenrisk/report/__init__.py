"""The audit: any score, every threshold, with error bars, on one page that works offline."""

from evenrisk.report._audit import AuditReport, Judgement, audit

__all__ = ["AuditReport", "Judgement", "audit"]
