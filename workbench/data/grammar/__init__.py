"""A small grammar of English: sentences that agree, with gold annotation, from lexicons written for it."""

from workbench.data.grammar._catalogue import Entry, contractions, lexicon, lexicon_names
from workbench.data.grammar._generate import CONSTRUCTION_NAMES, sentences, to_conllu, write_conllu
from workbench.data.grammar._lexicon import Adjective, Name, Noun, Verb, adjectives, names, nouns, verbs
from workbench.data.grammar._morphology import indefinite_article
from workbench.data.grammar._morphology import plural as regular_plural
from workbench.data.grammar._sentence import Sentence, Word

__all__ = [
    "CONSTRUCTION_NAMES",
    "Adjective",
    "Entry",
    "Name",
    "Noun",
    "Sentence",
    "Verb",
    "Word",
    "adjectives",
    "contractions",
    "indefinite_article",
    "lexicon",
    "lexicon_names",
    "names",
    "nouns",
    "regular_plural",
    "sentences",
    "to_conllu",
    "verbs",
    "write_conllu",
]
