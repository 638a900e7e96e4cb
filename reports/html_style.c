/* The style sheet and the script of a page. See html_impl.h. */
#include "reports/chart/svg.h"
#include "reports/html_impl.h"

/* Texts in parts, since a compiler need not take longer ones. */
static const char *const style[] = {
    "*{box-sizing:border-box}\n"
    "body{margin:0 auto;max-width:62rem;padding:0 1rem 3rem;background:var(--lk-paper);"
    "color:var(--lk-ink);font:1rem/1.5 system-ui,'DejaVu Sans',sans-serif;"
    "overflow-wrap:anywhere}\n"
    "header{display:flex;align-items:start;justify-content:space-between;gap:1rem}\n"
    "h1{font-size:1.5rem;line-height:1.25;margin:1.2rem 0 .6rem}\n"
    "h2{font-size:1.25rem;margin:2rem 0 .5rem;padding-top:.6rem;"
    "border-top:2px solid var(--lk-grid)}\n"
    "h3{font-size:1rem;margin:1.4rem 0 .3rem}\n"
    "p{margin:.4rem 0;max-width:46rem}\n"
    ".lead{font-size:1.2rem;line-height:1.4}\n"
    ".contradiction{border-left:.3rem solid var(--lk-red);padding-left:.7rem}\n"
    "nav{display:flex;flex-wrap:wrap;gap:.2rem 1.2rem}\n"
    "a{color:var(--lk-blue)}\n"
    "button{font:inherit;color:inherit;background:none;border:1px solid var(--lk-gray);"
    "border-radius:.3rem;padding:.2rem .7rem;cursor:pointer}\n"
    "#theme{margin-top:1.2rem;white-space:nowrap}\n"
    "figure{margin:1.2rem 0}\n"
    "figure svg{display:block;width:100%;height:auto}\n"
    ".narrow{display:none}\n"
    "@media screen and (max-width:40rem){.wide{display:none}.narrow{display:block}}\n"
    ".changes{padding-left:1.4rem}.changes li{margin:.3rem 0}\n",
    ".box{overflow-x:auto}\n"
    "table{border-collapse:collapse;font-size:.9rem;font-variant-numeric:tabular-nums;"
    "overflow-wrap:normal}\n"
    "th,td{padding:.25rem .7rem;text-align:left;vertical-align:top;"
    "border-bottom:1px solid var(--lk-grid)}\n"
    "td{max-width:34rem}td:not(.n){min-width:5rem}\n"
    "th{vertical-align:bottom}th,.n{white-space:nowrap}\n"
    ".n{text-align:right}\n"
    "th button{border:0;padding:0;font-weight:inherit}\n"
    "th[aria-sort=ascending] button::after{content:' \\25B2'}\n"
    "th[aria-sort=descending] button::after{content:' \\25BC'}\n"
    "details{margin:.5rem 0}summary{cursor:pointer}\n"
    ".notes{color:var(--lk-ink);opacity:.85;font-size:.9rem;padding-left:1.2rem}\n"
    ".same{font-size:.9rem}code{font:.9em ui-monospace,'DejaVu Sans Mono',monospace}\n"
    ":focus-visible{outline:2px solid var(--lk-blue);outline-offset:2px}\n"
    "@page{size:A4;margin:14mm}\n"
    "@media print{body{max-width:none;padding:0;font-size:10pt}\n"
    "header button,nav,.next,details:not([open]){display:none}\n"
    /* A what-if prints what it was asked (page/page.css) if it has answered, else nothing. */
    "#whatif-section:not(:has(#whatif[data-state=rest])){display:none}\n"
    "h2,h3{break-after:avoid}figure,tr,.answer{break-inside:avoid}\n"
    ".box{overflow:visible}figure svg{max-height:110mm}\n"
    "table{font-size:8pt}th,td{padding:.1rem .4rem}.n,th{white-space:normal}\n"
    "h2{border-top-width:1px;margin-top:1rem}h1{margin-top:0}}\n",
};

static const char *const script[] = {
    "'use strict';(()=>{\n"
    /* Sorting: numbers by their value, texts by the alphabet, empty cells last. */
    "const key=(row,at)=>{const c=row.cells[at],v=c.dataset.v;"
    "return v===undefined?c.textContent:+v};\n"
    "const order=(a,b)=>typeof a===typeof b?typeof a==='number'?a-b:"
    "a.localeCompare(b,'en',{numeric:true}):typeof a==='number'?-1:1;\n"
    "for(const table of document.querySelectorAll('table[data-table]')){\n"
    "const body=table.tBodies[0],heads=[...table.tHead.rows[0].cells];\n"
    "if(body.rows.length<2)continue;\n"
    "heads.forEach((head,at)=>{const b=document.createElement('button');b.type='button';\n"
    "b.append(...head.childNodes);head.append(b);\n"
    "b.addEventListener('click',()=>{const up=head.getAttribute('aria-sort')!=='ascending';\n"
    "for(const h of heads)h.removeAttribute('aria-sort');\n"
    "head.setAttribute('aria-sort',up?'ascending':'descending');\n"
    "const rows=[...body.rows].map(row=>({row,k:key(row,at)}));\n"
    "rows.sort((a,b)=>a.k==='-'||b.k==='-'?(a.k==='-')-(b.k==='-'):"
    "up?order(a.k,b.k):order(b.k,a.k));\n"
    "body.append(...rows.map(r=>r.row))})})}\n",
    /* The theme: that of the system, until the reader chooses another. */
    "const button=document.getElementById('theme'),root=document.documentElement;\n"
    "const system=matchMedia('(prefers-color-scheme: dark)');\n"
    "const dark=()=>root.dataset.theme?root.dataset.theme==='dark':system.matches;\n"
    "const show=()=>{button.textContent=dark()?'Light':'Dark';"
    "button.setAttribute('aria-label',dark()?'Light theme':'Dark theme')};\n"
    "button.hidden=false;button.addEventListener('click',()=>{"
    "root.dataset.theme=dark()?'light':'dark';show()});\n"
    "system.addEventListener('change',show);show();\n"
    /* A part that a link or a print asks for is not folded. */
    "addEventListener('hashchange',()=>{const at=document.getElementById(location.hash.slice(1));"
    "const fold=at&&at.closest('details');if(fold)fold.open=true});\n"
    "})();\n",
};

static enum lk_status put_parts(struct lk_writer *w, const char *const *parts, size_t n)
{
    for (size_t i = 0; i < n; i++)
        LK_PASS(lk_writer_printf(w, "%s", parts[i]));
    return LK_OK;
}

/* Write the colours of a theme for the elements that a selector has. */
static enum lk_status put_theme(struct lk_writer *w, const char *selector,
                                enum lk_chart_theme theme, const char *end)
{
    LK_PASS(lk_writer_printf(w, "%s{color-scheme:%s;", selector,
                             theme == LK_CHART_DARK ? "dark" : "light"));
    LK_PASS(lk_chart_css(w, theme));
    return lk_writer_printf(w, "}%s\n", end);
}

enum lk_status html_style(struct lk_writer *w)
{
    LK_PASS(put_theme(w, ":root", LK_CHART_LIGHT, ""));
    LK_PASS(put_theme(w, "@media screen and (prefers-color-scheme:dark){:root:not([data-theme])",
                      LK_CHART_DARK, "}"));
    LK_PASS(put_theme(w, "@media screen{:root[data-theme=dark]", LK_CHART_DARK, "}"));
    return put_parts(w, style, sizeof style / sizeof *style);
}

enum lk_status html_script(struct lk_writer *w)
{
    return put_parts(w, script, sizeof script / sizeof *script);
}
