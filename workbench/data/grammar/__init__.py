"""A small grammar of English: sentences that agree, with gold annotation, from lexicons written for it."""

from workbench.data.grammar._generate import CONSTRUCTION_NAMES, sentences, to_conllu, write_conllu
from workbench.data.grammar._lexicon import Adjective, Name, Noun, Verb, adjectives, names, nouns, verbs
from workbench.data.grammar._morphology import indefinite_article
from workbench.data.grammar._sentence import Sentence, Word

__all__ = [
    "CONSTRUCTION_NAMES",
    "Adjective",
    "Name",
    "Noun",
    "Sentence",
    "Verb",
    "Word",
    "adjectives",
    "indefinite_article",
    "names",
    "nouns",
    "sentences",
    "to_conllu",
    "verbs",
    "write_conllu",
]
