"""What Spanish and French share in how they write numbers, dates and amounts, with the words left open.

| part | what |
|---|---|
| `lexicon` | the words that a language fills in |
| `numbers` | figures: thousands in groups, decimal commas, ordinals, fractions, digits one by one |
| `dates` | dates with the day first, months by name |
| `amounts` | money, percentages, measures, ranges, sums |
| `roman` | Roman numerals, where a word before or behind says that they are some |

Both write 1.234,5 and 1 234,5. A group is recognised where that is certain, and set with thin spaces (`SEPARATOR`) from
then on, so that a point or a comma left between digits is a decimal one.
"""
