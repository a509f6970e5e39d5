"""What is wrong with the charts of a page that a browser shows: words outside of a chart, or over one another."""

CHART_FAULTS = """() => {
    const faults = [];
    for (const chart of document.querySelectorAll('svg.chart')) {
        const view = chart.viewBox.baseVal;
        const words = [...chart.querySelectorAll('text')].map(each => [each.textContent, each.getBBox()]);
        for (const [text, box] of words)
            if (box.x < 0 || box.y < 0 || box.x + box.width > view.width || box.y + box.height > view.height)
                faults.push('outside: ' + text);
        words.forEach(([text, a], i) => words.slice(i + 1).forEach(([other, b]) => {
            if (a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height)
                faults.push('overlap: ' + text + ' and ' + other);
        }));
    }
    return faults;
}"""
