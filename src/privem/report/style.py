"""The look of a page: quiet, one accent colour, readable on a phone and on paper."""

STYLE = """
.privem { color: #22262b; background: #fff; max-width: 60rem; margin: 0 auto;
  padding: 1.5rem 1.25rem 3rem; font: 17px/1.55 Charter, "Bitstream Charter", "Source Serif 4",
  Cambria, Georgia, serif; overflow-wrap: anywhere; }
.privem h1, .privem h2, .privem h3, .privem table, .privem dl, .privem figcaption, .privem summary,
.privem .kicker, .privem .note, .privem .caption, .privem footer, .privem svg text {
  font-family: system-ui, "Segoe UI", "Helvetica Neue", Arial, sans-serif; }
.privem h1 { font-size: 1.65rem; line-height: 1.25; margin: 0 0 .25rem; }
.privem h2 { font-size: 1.2rem; margin: 2.75rem 0 .75rem; padding-top: .75rem;
  border-top: 1px solid #c3c9d1; }
.privem h3 { font-size: 1rem; margin: 1.5rem 0 .4rem; }
.privem p { margin: .6rem 0; max-width: 44rem; }
.privem ul { padding-left: 1.2rem; max-width: 43rem; }
.privem li { margin: .35rem 0; }
.privem .kicker { color: #005a8c; font-size: .8rem; font-weight: 600; letter-spacing: .06em;
  text-transform: uppercase; margin: 0 0 .3rem; }
.privem .note, .privem .caption, .privem figcaption, .privem footer { color: #4b5563;
  font-size: .85rem; }
.privem blockquote { margin: 1rem 0; padding: .1rem 0 .1rem 1rem; border-left: 3px solid #0072B2; }
.privem blockquote.long { max-height: 22rem; overflow-y: auto; }
.privem .warning { border-left: 3px solid #D55E00; padding-left: 1rem; font-weight: 600; }
.privem .facts { display: grid; grid-template-columns: repeat(auto-fill, minmax(9rem, 1fr));
  gap: .75rem 1.25rem; margin: 1rem 0 1.25rem; }
.privem .facts dt { color: #4b5563; font-size: .8rem; }
.privem .facts dd { margin: 0; font-size: 1rem; font-weight: 600;
  font-variant-numeric: tabular-nums; }
.privem code, .privem pre { font: .85em/1.5 ui-monospace, "SF Mono", Menlo, Consolas, monospace; }
.privem pre { overflow-x: auto; background: #f4f6f8; padding: .75rem 1rem; white-space: pre-wrap; }
.privem .scroll { overflow-x: auto; margin: 0 0 1rem; }
.privem .caption { margin: 1rem 0 .3rem; }
.privem table.numbers { border-collapse: collapse; font-size: .85rem; background: #fff;
  overflow-wrap: break-word;
  font-variant-numeric: tabular-nums; }
.privem table.numbers th, .privem table.numbers td { padding: .3rem 1rem .3rem 0; text-align: right;
  vertical-align: top; white-space: nowrap; background: none; }
.privem table.numbers tbody th, .privem table.numbers thead th:first-child { text-align: left; }
.privem table.numbers th { font-weight: 600; }
.privem table.numbers th bdi { display: inline-block; max-width: 11rem; white-space: normal;
  vertical-align: top; }
.privem table.numbers th > span { display: inline-block; width: max-content; max-width: 16rem;
  vertical-align: top; }
.privem table.numbers tbody th { font-weight: 400; white-space: normal; min-width: 2.5rem; }
.privem table.numbers thead th { border-bottom: 1px solid #22262b; vertical-align: bottom; }
.privem table.numbers tbody tr + tr > * { border-top: 1px solid #e5e8ec; }
.privem .words table.numbers td { white-space: normal; overflow-wrap: anywhere; }
.privem summary { cursor: pointer; color: #005a8c; font-size: .85rem; padding: .3rem 0; }
.privem figure { margin: 1rem 0; }
.privem figcaption { margin-top: .6rem; }
.privem .panels { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(17rem, 100%),
  1fr)); gap: 1.25rem 1.5rem; }
@media (min-width: 44rem) { .privem .panels.two { grid-template-columns: 1fr 1fr;
  max-width: 44rem; } }
.privem .wide { max-width: 40rem; }
.privem svg { display: block; width: 100%; height: auto; max-width: 42rem; }
.privem svg text { font-size: 11px; fill: #4b5563; }
.privem svg .name { font-size: 12px; font-weight: 600; fill: #22262b; }
.privem svg .number { font-size: 9.5px; font-weight: 700; fill: #22262b; }
.privem svg .light { font-size: 13px; font-weight: 600; fill: #fff; }
.privem svg .dark { font-size: 13px; font-weight: 600; fill: #22262b; }
.privem svg .axis { stroke: #9aa3af; fill: none; }
.privem svg .points { stroke: #6b7280; stroke-width: 2.2; stroke-linecap: round;
  stroke-opacity: .45; fill: none; }
.privem svg .ring { stroke-width: 2; fill: none; }
.privem svg .halo { stroke: #fff; stroke-width: 4; stroke-opacity: .8; fill: none; }
.privem svg .fill { fill: #0072B2; fill-opacity: .35; }
.privem svg .line { fill: none; stroke: #D55E00; stroke-width: 1.8; }
.privem svg .bar { fill: #0072B2; fill-opacity: .55; }
.privem svg .mark { stroke: #D55E00; stroke-width: 2.5; }
.privem svg .slice { stroke: #fff; stroke-width: 1; }
.privem footer { margin-top: 3rem; }
@media (max-width: 40rem) {
  .privem { padding: 1rem 1rem 2rem; font-size: 16px; }
  .privem table.numbers th > span, .privem table.numbers th bdi { max-width: 9rem; }
}
@media print {
  .privem { max-width: none; padding: 0; font-size: 1.08rem; }
  .privem figure div, .privem .panels > div, .privem tr, .privem dl > div { break-inside: avoid; }
  .privem h2, .privem h3, .privem .caption { break-after: avoid; }
  .privem .scroll { overflow: visible; }
  .privem blockquote.long { max-height: none; }
  .privem .panels { grid-template-columns: repeat(3, 1fr); }
  .privem pre { white-space: pre-wrap; }
}
"""
# Of a page of its own, which may speak for the whole document.
PAPER = """
@media print { html { font-size: 10pt; } }
@page { margin: 18mm 16mm; }
"""
