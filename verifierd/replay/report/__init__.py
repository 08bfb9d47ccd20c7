"""Reports: one HTML file that needs no network, for whoever measured something.

    figures.py    numbers -> words: shares, intervals, differences
    charts.py     numbers -> what plotly draws
    page.py       sections of prose, tables, charts and cases -> the file
    templates/    how it looks

It knows nothing of what was measured; `evaluation/report.py` does.
"""
