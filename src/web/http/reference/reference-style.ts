// The style of the reference: that of the error pages, with the table of contents at the side where there is room.

import { groundCss, pageStyle } from '../page/html-page.ts';

/** The style sheet of the reference, and the Content-Security-Policy that admits nothing else. */
export const referenceStyle = pageStyle(`${groundCss}html{scroll-padding-top:1rem}
.page{max-width:50rem;margin:0 auto;padding:1.5rem clamp(1.25rem,5vw,2.5rem) 4rem}
.skip{position:absolute;left:1rem;top:-4rem;padding:.5rem 1rem;background:var(--ground);border:1px solid var(--line)}
.skip:focus{top:1rem}
h1,h2,h3,h4{margin:0;line-height:1.25;text-wrap:balance;font-weight:600}
h1{font-size:clamp(1.625rem,5vw,2.25rem);letter-spacing:-.01em}
h2{font-size:1.5rem;padding-bottom:.5rem}
h3{font-size:1.1875rem}
h4{margin:1.25rem 0 .25rem;font-size:1rem;font-weight:400;color:var(--soft)}
p{margin:.5rem 0}
ul{padding-left:1.25rem}
main>section{margin-top:3.5rem;padding-top:1.5rem;border-top:1px solid var(--line)}
main>section:first-child{margin-top:1rem}
.operation{padding:1.25rem 0 1.5rem;border-top:1px solid var(--line)}
.path b,nav b{font:600 .8125rem ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;color:var(--accent)}
.path{margin-top:.25rem}
.path b{margin-right:.5rem}
dl{margin:.25rem 0}
dd{margin:0}
.names>dt{padding-top:.5rem;border-top:1px solid var(--line)}
.names>dt:first-child{border-top:0}
.names>dt>span{color:var(--soft);font-size:.9375rem}
.names strong{font-weight:400;font-size:.875rem;color:var(--accent)}
.names>dd{padding-bottom:.5rem}
.names dd>p{margin:.125rem 0}
.names dd>.names{margin:.5rem 0 0;padding-left:1rem;border-left:2px solid var(--line)}
.answers{display:grid;grid-template-columns:3rem minmax(0,1fr);gap:.25rem .75rem}
.answers dt{color:var(--soft);font-variant-numeric:tabular-nums}
pre{margin:.5rem 0;padding:.75rem 1rem;background:var(--well);border-radius:.25rem;white-space:pre-wrap;font-size:.9375rem;line-height:1.5}
.examples{border:1px solid var(--line);border-radius:.25rem}
.examples details+details{border-top:1px solid var(--line)}
.examples pre{margin:0;border-radius:0}
summary{padding:.375rem .75rem;cursor:pointer}
:target{scroll-margin-top:1rem}
:target>h2,:target>h3,dt:target>code{text-decoration:underline;text-decoration-color:var(--accent);text-underline-offset:.25em}
nav{font-size:.9375rem}
nav summary{padding:.5rem 0;font-weight:600}
nav ul{list-style:none;margin:0;padding:0}
nav details>ul>li{padding:.375rem 0;font-weight:600}
nav ul ul{padding-top:.125rem;font-weight:400}
nav ul ul a{display:flex;gap:.625rem;padding:.1875rem 0;color:inherit;text-decoration:none}
nav ul ul a:hover{text-decoration:underline}
nav b{flex:none;width:3.375rem;padding-top:.1875rem}
@media(min-width:64rem){
.page{display:grid;grid-template:auto 1fr/19rem minmax(0,1fr);gap:0 3.5rem;max-width:76rem}
nav{grid-area:1/1/3/2;position:sticky;top:0;align-self:start;max-height:100vh;overflow-y:auto;padding:.5rem .5rem 2rem 0}
header,main{grid-column:2}
}
@media(min-width:64rem){@supports selector(::details-content){nav summary{display:none}nav details::details-content{content-visibility:visible;block-size:auto}}}
@media(max-width:36rem){.answers{grid-template-columns:minmax(0,1fr);gap:0}.answers dd{padding-bottom:.5rem}}
@media print{nav,.skip{display:none}}
`);
