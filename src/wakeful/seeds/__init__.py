"""The systems that wakeful unites, as programs know them: their own functions, over wakeful's verbs."""

from wakeful.seeds.alarm import Alarm as Alarm
